// SPDX-License-Identifier: Apache-2.0
// Helpers for overlays: each gives an object to be added to the others with +. An unknown name is an error that lists
// the known ones. They use nothing but the fields of the mixin, so they work on top of that as well.
// In a local, $ is the object that the helper is added to; in the object at the end it would be that object.
local names(items, key) = std.join(', ', [item[key] for item in items if std.objectHas(item, key)]);
local flat(panels) = std.flattenArrays([[panel] + std.get(panel, 'panels', []) for panel in panels]);

// All rules of a field of groups, through a function of one rule that gives a list.
local rules(change) = {
  groups: [group { rules: std.flattenArrays([change(rule) for rule in group.rules]) } for group in super.groups],
};

local adds(name, items, interval) = {
  groups:
    if std.length([0 for group in super.groups if group.name == name]) > 0
    then [if group.name == name then group { rules+: items } else group for group in super.groups]
    else super.groups + [{ name: name, interval: interval, rules: items }],
};

local panels(items, change) = std.flattenArrays([
  change(if std.objectHas(panel, 'panels') then panel { panels: panels(panel.panels, change) } else panel)
  for panel in items
]);

local withPanels(board, title, change) = {
  dashboards+:: {
    [board]:
      if !(board in super)
      then error 'there is no dashboard ' + board + '; there are '
                 + std.join(', ', [name for name in std.objectFields($.dashboards) if name != board])
      else
        local old = super[board];
        local all = flat(old.panels);
        if std.length([0 for panel in all if std.get(panel, 'title', '') == title]) == 0
        then error board + ' has no panel ' + title + '; it has ' + names(all, 'title')
        else old { panels: panels(old.panels, function(panel) if std.get(panel, 'title', '') == title then change(panel) else [panel]) },
  },
};

// An alert may be missing in the tier that is being built; it must be in some tier, or come from another overlay.
local withAlert(name, change) = {
  prometheusAlerts+::
    local present = [rule.alert for group in super.prometheusAlerts.groups for rule in group.rules];
    if std.objectHas($._config.alerts, name) || std.member(present, name)
    then rules(function(rule) if rule.alert == name then change(rule) else [rule])
    else error 'there is no alert ' + name + '; there are ' + std.join(', ', std.objectFields($._config.alerts)),
};

local withRule(name, change) = {
  prometheusRules+::
    local all = std.flattenArrays([group.rules for group in super.prometheusRules.groups]);
    if std.length([0 for rule in all if rule.record == name]) > 0
    then rules(function(rule) if rule.record == name then change(rule) else [rule])
    else error 'there is no recording rule ' + name + '; there are ' + names(all, 'record'),
};

local levels = ['low', 'medium', 'high'];

local addAlert(group, rule, tiers=levels, interval='30s') = {
  prometheusAlerts+::
    local unknown = [tier for tier in tiers if !std.member(levels, tier)];
    if unknown != []
    then error 'there is no tier ' + unknown[0] + '; there are ' + std.join(', ', levels)
    else if std.member(tiers, $._config.sensitivity) then adds(group, [rule], interval)
    else {},
};

{
  // Alerts. A tier is low, medium or high; a change is an object that is added to the rule.
  threshold(name, tier, value, key='threshold'): {
    _config+:: {
      alerts+:
        local tiers = std.get(super.alerts, name, {});
        local asked = std.get(tiers, tier);
        if tiers == {}
        then error 'there is no alert ' + name + '; there are ' + std.join(', ', std.objectFields(super.alerts))
        else if asked == null
        then error name + ' is not in tier ' + tier + '; it is in ' + std.join(', ', std.objectFields(tiers))
        else if !std.objectHas(asked, key)
        then error name + ' has no threshold ' + key + '; it has ' + std.join(', ', std.objectFields(asked))
        else { [name]+: { [tier]+: { [key]: value } } },
    },
  },
  changeAlert(name, change): withAlert(name, function(rule) [rule + change]),
  removeAlert(name): withAlert(name, function(rule) []),
  // In the tiers named; by default in all of them.
  addAlert:: addAlert,

  // Recording rules.
  changeRule(name, change): withRule(name, function(rule) [rule + change]),
  removeRule(name): withRule(name, function(rule) []),
  addRule(group, rule, interval='30s'): { prometheusRules+:: adds(group, [rule], interval) },

  // Dashboards, by file name, and panels, by title.
  changeDashboard(board, change): { dashboards+:: { [board]+: change } },
  removeDashboard(board): {
    dashboards::
      local old = super.dashboards;
      if std.objectHas(old, board)
      then { [name]: old[name] for name in std.objectFields(old) if name != board }
      else error 'there is no dashboard ' + board + '; there are ' + std.join(', ', std.objectFields(old)),
  },
  changePanel(board, title, change): withPanels(board, title, function(panel) [panel + change]),
  removePanel(board, title): withPanels(board, title, function(panel) []),
  // Below everything else, with a number of its own.
  addPanel(board, panel): {
    dashboards+:: {
      [board]+: {
        local old = super.panels,
        panels: old + [
          {
            id: std.foldl(function(most, each) std.max(most, std.get(each, 'id', 0)), flat(old), 0) + 1,
            gridPos: {
              x: 0,
              y: std.foldl(function(low, each) std.max(low, each.gridPos.y + each.gridPos.h), flat(old), 0),
              w: 24,
              h: 8,
            },
          } + panel,
        ],
      },
    },
  },

  folder(title): { grafanaDashboardFolder:: title },
}
