// SPDX-License-Identifier: Apache-2.0
// What a reader sees of a panel: Grafana's frames, transformations, field options, overrides, mappings, thresholds, units.
'use strict';
const { lastValueFrom } = require('rxjs');
const { frames } = require('./frames.cjs');
const { registry } = require('./fields.cjs');

/** Fills in `${name}`, `${name:format}` and `$name`; what nobody defines stays. */
function filler(grafana, variables) {
  return (text, scoped) =>
    String(text ?? '').replace(/\$\{([\w.]+)(?::(\w+))?\}|\$(\w+)/g, (whole, long, format, short) => {
      const [name, ...path] = (long ?? short).split('.');
      if (name === '__url_time_range') {
        return `from=${variables.__from}&to=${variables.__to}`;
      }
      if (format === 'queryparam') {
        return `var-${name}=${encodeURIComponent(variables[name] ?? '')}`;
      }
      if (scoped?.__dataContext && ['__data', '__field', '__value'].includes(name)) {
        return inContext(grafana, scoped.__dataContext.value, name, path) ?? whole;
      }
      return variables[name] ?? whole;
    });
}

/** Grafana keeps these three in its core; the names and their meaning are documented under "data link variables". */
function inContext(grafana, { frame, field, rowIndex }, name, path) {
  if (name === '__field') {
    return path[0] === 'labels' ? field.labels?.[path[1]] : grafana.getFieldDisplayName(field, frame);
  }
  if (name === '__value') {
    return field.values[rowIndex];
  }
  if (rowIndex === undefined) {
    return undefined;
  }
  const shown = grafana.getFieldDisplayValuesProxy({ frame, rowIndex });
  return encodeURIComponent(String(shown[path[1]] ?? ''));
}

const text = (grafana, shown) => grafana.formattedValueToString(shown);
const hex = (grafana, theme, colour) => (colour ? theme.visualization.getColorByName(colour).toLowerCase() : '');

/** A panel, as it is after its data has gone through Grafana. */
async function read(grafana, panel, answers, context) {
  const theme = grafana.createTheme({ colors: { mode: 'light' } });
  const replaceVariables = filler(grafana, context.variables);
  const raw = frames(grafana, { ...panel, step: context.step }, answers);
  const steps = (panel.transformations ?? []).map((each) => ({ ...each, options: each.options ?? {} }));
  const changed = await lastValueFrom(grafana.transformDataFrame(steps, raw, { interpolate: replaceVariables }));
  const config = structuredClone(panel.fieldConfig ?? { defaults: {}, overrides: [] });
  const applied = grafana.applyFieldOverrides({
    data: changed,
    fieldConfig: config,
    fieldConfigRegistry: registry(grafana, panel.type),
    replaceVariables,
    theme,
    timeZone: 'utc',
  });
  const reading = { grafana, theme, panel, config, data: applied, replaceVariables, context };
  return { title: panel.title, type: panel.type, options: panel.options ?? {}, ...(READERS[panel.type] ?? (() => ({})))(reading) };
}

// Tables.

function table({ grafana, theme, panel, config, data }) {
  // Several frames are a choice below the table, which shows the first.
  const [first] = data;
  if (!first || !data.some((frame) => frame.length)) {
    return { frames: data.length, empty: config.defaults.noValue || 'No data' };
  }
  // A cell is asked by its place before sorting, which its links know.
  const place = { name: 'place', type: grafana.FieldType.number, config: {}, values: Array.from({ length: first.length }, (_, row) => row) };
  let shown = { ...first, fields: [...first.fields, place] };
  for (const { displayName, desc } of [...(panel.options?.sortBy ?? [])].reverse()) {
    const index = first.fields.findIndex((field) => grafana.getFieldDisplayName(field, first) === displayName);
    shown = index < 0 ? shown : grafana.sortDataFrame(shown, index, desc);
  }
  const fields = first.fields.filter((field) => !field.config.custom?.hidden);
  return {
    frames: data.filter((frame) => frame.fields.length).length,
    columns: fields.map((field) => grafana.getFieldDisplayName(field, first)),
    rows: shown.fields.at(-1).values.map((row) => fields.map((field) => cell(grafana, theme, field, row))),
  };
}

function cell(grafana, theme, field, row) {
  const value = field.values[row];
  const shown = field.display(value);
  const painted = String(field.config.custom?.cellOptions?.type ?? '').startsWith('color-');
  return {
    text: text(grafana, shown),
    colour: painted ? hex(grafana, theme, shown.color) : '',
    links: field.getLinks?.({ valueRowIndex: row }).map((link) => link.href) ?? [],
  };
}

// Single values.

function values({ grafana, theme, panel, config, data, replaceVariables }) {
  const found = grafana.getFieldDisplayValues({
    fieldConfig: config,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables,
    theme,
    data,
    timeZone: 'utc',
  });
  return {
    values: found.map(({ display }) => ({
      name: display.title ?? '',
      text: text(grafana, display),
      colour: hex(grafana, theme, display.color),
    })),
  };
}

// Curves.

const time = (grafana, frame) => frame.fields.find((field) => field.type === grafana.FieldType.time);

/** All curves with the texts of their last and largest values, and whether they have ended before the shown time has. */
function curves({ grafana, theme, config, data, context }) {
  const found = data.flatMap((frame) =>
    frame.fields
      .filter((field) => field.type === grafana.FieldType.number && field.values.length)
      .map((field) => {
        const seen = grafana.reduceField({ field, reducers: ['lastNotNull', 'max'] });
        const style = field.config.custom?.lineStyle?.fill ?? 'solid';
        const mode = grafana.getFieldColorModeForField(field);
        return {
          name: grafana.getFieldDisplayName(field, frame, data),
          last: text(grafana, field.display(seen.lastNotNull)),
          most: text(grafana, field.display(seen.max)),
          stale: context.variables.__to - time(grafana, frame).values.at(-1) > 4 * context.step * 1000,
          // A line whose colour depends on its value has the colour of its last one.
          colour: hex(grafana, theme, mode.getCalculator(field, theme)(seen.lastNotNull, 1)),
          style,
        };
      }),
  );
  return found.length ? { curves: found } : { empty: config.defaults.noValue || 'No data' };
}

// State timelines.

/**
 * Bars as the state timeline makes them (public/app/core/components/TimelineChart of Grafana): where values are merged
 * and coloured by thresholds, the steps are the states, and mappings are lost; frames without a time field are refused.
 */
function timeline({ grafana, theme, panel, config, data }) {
  if (!data.length) {
    return { empty: config.defaults.noValue || 'No data' };
  }
  const lines = data.flatMap((frame) => {
    const at = time(grafana, frame);
    return at ? frame.fields.filter((field) => field !== at && field.values.length).map((field) => ({ frame, field, time: at })) : [];
  });
  if (!lines.length) {
    return { empty: 'Data does not have a time field' };
  }
  return { bars: lines.map(({ frame, field, time }) => bars(grafana, theme, panel, { frame, field, time })) };
}

function bars(grafana, theme, panel, { frame, field, time }) {
  const byStep = panel.options?.mergeValues !== false && field.config.color?.mode === 'thresholds';
  const states = field.values.map((value) => (byStep ? ofStep(grafana, theme, field, value) : mapped(grafana, theme, field, value)));
  const spans = [];
  states.forEach((state, place) => {
    const before = spans.at(-1);
    if (before && before.text === state.text && before.colour === state.colour) {
      before.to = time.values[place];
    } else {
      spans.push({ ...state, from: time.values[place], to: time.values[place] });
    }
  });
  return { name: grafana.getFieldDisplayName(field, frame), states: spans };
}

function mapped(grafana, theme, field, value) {
  const shown = field.display(value);
  return { text: text(grafana, shown), colour: hex(grafana, theme, shown.color) };
}

function ofStep(grafana, theme, field, value) {
  const step = grafana.getActiveThreshold(value, field.config.thresholds.steps);
  return { text: `${step.value}+`, colour: hex(grafana, theme, step.color) };
}

const READERS = {
  table,
  stat: values,
  bargauge: values,
  gauge: values,
  timeseries: curves,
  heatmap: curves,
  'state-timeline': timeline,
};

exports.read = read;
