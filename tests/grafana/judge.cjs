// SPDX-License-Identifier: Apache-2.0
// Reads what was asked on standard input, one JSON document, with every version of Grafana, and writes the readings:
//   in:  [{panels: [{panel, answers}], variables, step}, ...]    out: {version: [[reading, ...], ...], ...}
'use strict';
const { readFileSync, writeSync } = require('node:fs');
const { load, schema, versions } = require('./grafana.cjs');
const { odd } = require('./schema.cjs');
const { read } = require('./read.cjs');

async function main() {
  const views = JSON.parse(readFileSync(0, 'utf8'));
  const chosen = process.argv.slice(2).map(Number);
  const readings = {};
  for (const version of versions.filter((each) => !chosen.length || chosen.includes(each))) {
    const grafana = load(version);
    readings[version] = [];
    for (const { panels, variables, step } of views) {
      const found = [];
      for (const { panel, answers } of panels) {
        const seen = await read(grafana, panel, answers, { variables, step });
        found.push({ ...seen, odd: odd(schema(version), panel) });
      }
      readings[version].push(found);
    }
  }
  const out = Buffer.from(JSON.stringify(readings));
  for (let at = 0; at < out.length; ) {
    at += writeSync(1, out, at);
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
