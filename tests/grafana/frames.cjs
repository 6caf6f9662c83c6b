// SPDX-License-Identifier: Apache-2.0
// What Grafana's Prometheus data source hands to a panel: answers of Prometheus' API as data frames.
'use strict';

const NUMBERS = { '+Inf': Infinity, '-Inf': -Infinity, NaN: NaN };
const number = (text) => (text in NUMBERS ? NUMBERS[text] : Number(text));

/** The name of a series: its legend filled in, else the series as Prometheus writes it. */
function legend(template, labels) {
  if (template && template !== '__auto') {
    return template.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => labels[label] ?? '');
  }
  const { __name__: name = '', ...others } = labels;
  const pairs = Object.keys(others).sort().map((key) => `${key}="${others[key]}"`);
  return pairs.length ? `${name}{${pairs.join(', ')}}` : name || 'Value';
}

/** A frame a series; where nothing was found one frame without fields, which still carries the letter of the query. */
function series(grafana, target, result) {
  const { FieldType } = grafana;
  const name = (labels) => legend(target.legendFormat, labels);
  if (!result.length) {
    return [grafana.toDataFrame({ refId: target.refId, fields: [] })];
  }
  return result.map(({ metric, values, value }) => {
    const points = values ?? [value];
    return grafana.toDataFrame({
      refId: target.refId,
      name: name(metric),
      fields: [
        // Points come a step apart: where one is missing, a graph shows a gap.
        { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000), config: values ? { interval: target.step * 1000 } : {} },
        {
          name: 'Value',
          type: FieldType.number,
          values: points.map(([, text]) => number(text)),
          labels: metric,
          config: { displayNameFromDS: name(metric) },
        },
      ],
    });
  });
}

/** One frame a query: a column a label, an empty text where a series lacks it, and the value. */
function table(grafana, target, result, several) {
  const { FieldType } = grafana;
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric).sort()))];
  const column = (name, type, values, config = {}) => ({ name, type, values, config });
  return grafana.toDataFrame({
    refId: target.refId,
    fields: [
      column('Time', FieldType.time, result.map(({ value }) => value[0] * 1000)),
      ...labels.map((label) => column(label, FieldType.string, result.map(({ metric }) => metric[label] ?? ''), { filterable: true })),
      column(several ? `Value #${target.refId}` : 'Value', FieldType.number, result.map(({ value }) => number(value[1]))),
    ],
  });
}

/** All frames of a panel; `answers` are Prometheus' results by the letter of the query. */
exports.frames = (grafana, panel, answers) => {
  const targets = (panel.targets ?? []).filter((each) => !each.hide).map((each) => ({ ...each, step: panel.step }));
  const tables = targets.filter((each) => each.format === 'table');
  return targets.flatMap((target) =>
    target.format === 'table'
      ? [table(grafana, target, answers[target.refId] ?? [], tables.length > 1)]
      : series(grafana, target, answers[target.refId] ?? []),
  );
};
