// SPDX-License-Identifier: Apache-2.0
// Grafana's own library of a major version. It expects a browser, so there is one before it is loaded.
'use strict';
const { JSDOM } = require('jsdom');

const browser = new JSDOM('', { url: 'http://grafana.example/' }).window;
for (const name of ['document', 'localStorage', 'HTMLElement', 'Node', 'Element', 'DOMParser', 'navigator']) {
  // Newer versions of Node have some of these, which are not to be assigned.
  Object.defineProperty(globalThis, name, { value: browser[name], configurable: true, writable: true });
}
globalThis.window = browser;
// Answers go to standard output, and nothing else does.
console.log = console.info = console.error;

/** The versions in package.json: 11, 12 and 13. */
exports.versions = Object.keys(require('./package.json').dependencies)
  .filter((name) => name.startsWith('data-'))
  .map((name) => Number(name.slice('data-'.length)));

exports.schema = (version) => require(`schema-${version}`);

exports.load = (version) => {
  const grafana = require(`data-${version}`);
  const { standardTransformersRegistry: transformers, standardTransformers, standardFieldConfigEditorRegistry: fields } = grafana;
  // Old names of a transformation share its id.
  const byId = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));
  // Grafana 13 loads a transformation when it is first wanted.
  const lazy = version >= 13;
  transformers.setInit(() => [...byId].map(([id, each]) => ({ id, name: each.name, transformation: lazy ? async () => each : each })));
  fields.setInit(() => []);
  grafana.setTimeZoneResolver?.(() => 'utc');
  return grafana;
};
