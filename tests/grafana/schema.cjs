// SPDX-License-Identifier: Apache-2.0
// Words that a panel uses where Grafana's schema has a list of words. Grafana falls back to a default without saying so.
'use strict';

/** Where the schema has a list: the place in the panel's JSON, and the name of the list. */
const LISTED = {
  'options.legend.displayMode': 'LegendDisplayMode',
  'options.tooltip.mode': 'TooltipDisplayMode',
  'options.tooltip.sort': 'SortOrder',
  'options.textMode': 'BigValueTextMode',
  'options.graphMode': 'BigValueGraphMode',
  'options.displayMode': 'BarGaugeDisplayMode',
  'options.showValue': 'VisibilityMode',
  'options.cellHeight': 'TableCellHeight',
  'fieldConfig.defaults.color.mode': 'FieldColorModeId',
  'fieldConfig.defaults.thresholds.mode': 'ThresholdsMode',
  'fieldConfig.defaults.custom.cellOptions.type': 'TableCellDisplayMode',
  'fieldConfig.defaults.custom.thresholdsStyle.mode': 'GraphThresholdsStyleMode',
};
const PROPERTIES = { color: ['mode', 'FieldColorModeId'], 'custom.cellOptions': ['type', 'TableCellDisplayMode'] };

const at = (json, path) => path.split('.').reduce((part, key) => part?.[key], json);

exports.odd = (schema, panel) => {
  const values = Object.entries(LISTED).map(([path, list]) => [path, at(panel, path), list]);
  for (const { matcher, properties } of panel.fieldConfig?.overrides ?? []) {
    for (const { id, value } of properties) {
      const [key, list] = PROPERTIES[id] ?? [];
      values.push(...(key ? [[`${matcher.options}: ${id}.${key}`, value[key], list]] : []));
    }
    for (const mapping of properties.filter(({ id }) => id === 'mappings').flatMap(({ value }) => value)) {
      values.push([`${matcher.options}: mappings`, mapping.type, 'MappingType']);
    }
  }
  const lists = (name) => Object.values(schema[name] ?? {});
  return values
    .filter(([, value, list]) => value !== undefined && lists(list).length && !lists(list).includes(value))
    .map(([path, value]) => `${path}: ${value}`);
};
