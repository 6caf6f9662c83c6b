// SPDX-License-Identifier: Apache-2.0
// The field options that Grafana's panels register, each with Grafana's own processor. Options that are not registered
// are ignored by Grafana, and so they are here.
'use strict';

const CUSTOM = {
  timeseries: ['lineStyle', 'lineWidth', 'fillOpacity', 'spanNulls', 'thresholdsStyle', 'axisSoftMin', 'axisSoftMax', 'hideFrom', 'showPoints', 'pointSize', 'axisPlacement', 'drawStyle', 'lineInterpolation', 'stacking', 'gradientMode', 'axisLabel', 'axisBorderShow', 'axisCenteredZero', 'axisColorMode', 'axisGridShow', 'axisWidth', 'barAlignment', 'barWidthFactor', 'insertNulls', 'scaleDistribution'],
  table: ['cellOptions', 'width', 'align', 'filterable', 'inspect', 'hidden', 'minWidth'],
  'state-timeline': ['lineWidth', 'fillOpacity', 'spanNulls', 'hideFrom', 'insertNulls', 'axisPlacement'],
  heatmap: ['hideFrom', 'scaleDistribution'],
};

exports.registry = (grafana, type) => {
  const standard = {
    color: grafana.identityOverrideProcessor,
    unit: grafana.unitOverrideProcessor,
    decimals: grafana.numberOverrideProcessor,
    min: grafana.numberOverrideProcessor,
    max: grafana.numberOverrideProcessor,
    displayName: grafana.displayNameOverrideProcessor,
    noValue: grafana.stringOverrideProcessor,
    mappings: grafana.valueMappingsOverrideProcessor,
    thresholds: grafana.thresholdsOverrideProcessor,
    links: grafana.dataLinksOverrideProcessor,
    description: grafana.stringOverrideProcessor,
  };
  const item = (id, path, process, isCustom) => ({ id, path, name: id, process, isCustom, shouldApply: () => true, settings: {} });
  return new grafana.FieldConfigOptionsRegistry(() => [
    ...Object.entries(standard).map(([id, process]) => item(id, id, process, false)),
    ...(CUSTOM[type] ?? []).map((id) => item(`custom.${id}`, id, grafana.identityOverrideProcessor, true)),
  ]);
};
