// Copies of the tests with wrong expectations: on a correct solution each of them must fail.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cartList, letter, page } from '../src/index.js';

/** Every expectation goes through here. */
function same(actual, expected) {
  assert.deepEqual(actual, expected);
}

const ORDERS = [
  { customer: { name: 'Ada', street: 'Mill Lane 3' }, lines: [{ what: 'oats', kg: 20 }, { what: 'rye', kg: 5 }], note: 'ring' },
  { customer: { name: 'Bo', street: 'Quay 1' }, lines: [{ what: 'corn', kg: 40 }], note: 'early' },
];

test('a letter lists what is delivered', () => {
  same(
    letter(ORDERS[0]),
    'Ada\nMill Lane 3\n\nDear Ada,\nwe deliver:\n- 20 kg oats\n- 5 kg rye\nring twice\nYour mill\n',
  );
});

test('a letter without lines has none', () => {
  same(letter({ customer: { name: 'Ada' }, note: 'x' }), 'Ada\n\nDear Ada,\nwe deliver:\nx\nYour mill\n');
});

test('the page sums up', () => {
  same(
    page('Monday', ORDERS),
    '<h1>Monday</h1>\n<ul>\n<li title="ring">Ada: 25 kg</li>\n<li title="early">Bo: 40 kg</li>\n</ul>\n' +
      '<footer>2 orders &middot; 56 kg</footer>\n',
  );
});

test('the page of a day without orders is empty', () => {
  same(page('Sunday', []), '<h1>Sunday</h1>\n<ul>\n</ul>\n<footer>no orders &middot; 0 kg</footer>\n');
});

test('the cart begins with the heaviest order', () => {
  same(cartList(ORDERS), 'Mill Lane 3\n  20 oats\n  5 rye\n\n');
});
