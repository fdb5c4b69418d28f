import { fill } from './template.js';

/** The letter to a customer, as plain text. */
export function letter(order) {
  return fill('letter.txt', order);
}
