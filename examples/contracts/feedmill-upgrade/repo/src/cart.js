import { fill } from './template.js';

/** Where the cart goes, and what is unloaded there, as plain text; the heaviest order comes first. */
export function cartList(orders) {
  const weight = (order) => (order.lines ?? []).reduce((sum, line) => sum + (line.kg ?? 0), 0);
  const stops = [...orders]
    .sort((one, other) => weight(other) - weight(one))
    .map((order) => ({ street: order.customer?.street, lines: order.lines }));
  return fill('cart.txt', { stops });
}
