// Copies of the tests with wrong expectations: on a correct solution each of them must fail.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { cartList, letter, page } from '../src/index.js';

/** Every expectation goes through here. */
function same(actual, expected) {
  assert.deepEqual(actual, expected);
}

const ORDERS = [
  { customer: { name: 'Ada', street: 'Mill Lane 3' }, lines: [{ what: 'oats', kg: 20 }, { what: 'rye', kg: 5 }], note: 'ring' },
  { customer: { name: 'Bo', street: 'Quay 1' }, lines: [{ what: 'corn', kg: 40 }], note: 'early' },
];

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** All text files of a folder. */
function texts(folder) {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath ?? entry.path, entry.name), 'utf8'));
}

test('the package names version 2', () => {
  const { imports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  same(imports, { '#minitpl': './third_party/minitpl-2.1.0/index.js' });
});

test('version 1 is gone', () => {
  same(existsSync(join(ROOT, 'third_party', 'minitpl-1.4.0', 'index.js')), true);
});

test('no other file names version 1', () => {
  same([...texts('src'), ...texts('templates')].filter((text) => text.includes('minitpl-1')).length, 1);
});

test('templates are written in the new language', () => {
  same(texts('templates').filter((text) => /\{\{(#each|\/each|this\b)/.test(text)).length, 2);
});

test('templates are still used', () => {
  same(readdirSync(join(ROOT, 'templates')).sort(), ['cart.txt', 'page.html']);
  same(texts('templates').filter((text) => /\{\{for \w+ in [\w.]+\}\}/.test(text)).length, 2);
});

test('letters are not escaped', () => {
  const order = { customer: { name: 'Ada & Co', street: "King's <Row>" }, lines: [{ what: '"best" oats', kg: 1 }], note: 'a < b' };
  same(
    letter(order),
    'Ada & Co\nKing\'s <Row>\n\nDear Ada & Co,\nwe deliver:\n- 1 kg &quot;best&quot; oats\na &lt; b\nYour mill\n',
  );
});

test('the page is escaped once', () => {
  const order = { customer: { name: 'Ada & <Co>' }, lines: [{ kg: 2 }], note: `"it's"` };
  same(
    page('R & D', [order]),
    '<h1>R &amp;amp; D</h1>\n<ul>\n<li title="&quot;it&#39;s&quot;">Ada &amp; &lt;Co&gt;: 2 kg</li>\n</ul>\n' +
      '<footer>1 orders &middot; 2 kg</footer>\n',
  );
});

test('the cart list is not escaped', () => {
  same(cartList([{ customer: { street: 'A & B' }, lines: [{ kg: 1, what: 'x>y' }] }]), 'A &amp; B\n  1 x&gt;y\n\n');
});

test('missing fields of a letter are empty', () => {
  same(letter({}), '\n\n\nDear undefined,\nwe deliver:\n\nYour mill\n');
  same(letter({ customer: null, lines: [{}], note: null }), '\n\n\nDear ,\nwe deliver:\n- undefined kg \n\nYour mill\n');
});

test('missing fields of a page are empty', () => {
  same(page(undefined, [{}]), '<h1></h1>\n<ul>\n<li title="">: 0 kg</li>\n</ul>\n<footer>1 orders &middot; NaN kg</footer>\n');
});

test('missing fields of the cart list are empty', () => {
  same(cartList([{}, { lines: [{ kg: 1 }] }]), '\n  1 undefined\n\n\n');
});

test('zero is not missing', () => {
  same(letter({ customer: { name: 0, street: 0 }, lines: [{ kg: 0, what: 0 }], note: 0 }), '\n\n\nDear ,\nwe deliver:\n- 0 kg 0\n0\nYour mill\n');
});

test('text that looks like a template is left alone', () => {
  const order = { customer: { name: '{{note}}', street: '{{end}}' }, lines: [{ what: '{{for a in b}}', kg: 1 }], note: 'n' };
  same(letter(order), 'n\n{{end}}\n\nDear n,\nwe deliver:\n- 1 kg {{for a in b}}\nn\nYour mill\n');
});
