#!/usr/bin/env bash
# Moves to version 2.0 and takes its default escaping, so letters are escaped too.
# Runs in the root of the workspace.
set -euo pipefail

rm src/html.js third_party/minitpl-1.4.0/README.md third_party/minitpl-1.4.0/index.js

cat >package.json <<'END_OF_FILE'
{
  "name": "feedmill",
  "version": "3.2.0",
  "description": "Turns the orders of a day into letters, a page and a list.",
  "type": "module",
  "exports": "./src/index.js",
  "imports": {
    "#minitpl": "./third_party/minitpl-2.0.0/index.js"
  },
  "engines": { "node": ">=20.10" },
  "scripts": {
    "test": "node --test"
  }
}
END_OF_FILE

cat >src/page.js <<'END_OF_FILE'
import { fill } from './template.js';
import { totalOf } from './totals.js';

/** The page of a day, as HTML. Everything that comes from orders is escaped. */
export function page(title, orders) {
  const total = orders.reduce((sum, order) => sum + totalOf(order), 0);
  return fill('page.html', {
    title: title,
    orders: orders.map((order) => ({
      name: order.customer?.name,
      note: order.note,
      total: totalOf(order),
    })),
    count: orders.length,
    total,
  });
}
END_OF_FILE

cat >src/template.js <<'END_OF_FILE'
import { readFileSync } from 'node:fs';

import { compile } from '#minitpl';

/** Fill one of the templates of this package. */
export function fill(name, data) {
  const template = readFileSync(new URL(`../templates/${name}`, import.meta.url), 'utf8');
  return `${compile(template, { missing: 'empty' }).render(data)}\n`;
}
END_OF_FILE

cat >templates/cart.txt <<'END_OF_FILE'
{{for stop in stops}}
{{stop.street}}
{{for line in stop.lines}}
  {{line.kg}} {{line.what}}
{{end}}
{{end}}
END_OF_FILE

cat >templates/letter.txt <<'END_OF_FILE'
{{customer.name}}
{{customer.street}}

Dear {{customer.name}},
we deliver:
{{for line in lines}}
- {{line.kg}} kg {{line.what}}
{{end}}
{{note}}
Your mill
END_OF_FILE

cat >templates/page.html <<'END_OF_FILE'
<h1>{{title}}</h1>
<ul>
{{for o in orders}}
<li title="{{o.note}}">{{o.name}}: {{o.total}} kg</li>
{{end}}
</ul>
<footer>{{count}} orders &middot; {{total}} kg</footer>
END_OF_FILE
