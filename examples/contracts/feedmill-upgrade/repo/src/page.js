import { render } from '#minitpl';

import { escapeHtml } from './html.js';
import { fill } from './template.js';
import { totalOf } from './totals.js';

const FOOTER = '<footer>{{count}} orders &middot; {{total}} kg</footer>';

/** The page of a day, as HTML. Everything that comes from orders is escaped. */
export function page(title, orders) {
  const total = orders.reduce((sum, order) => sum + totalOf(order), 0);
  return fill('page.html', {
    title: escapeHtml(title),
    orders: orders.map((order) => ({
      name: escapeHtml(order.customer?.name),
      note: escapeHtml(order.note),
      total: totalOf(order),
    })),
    footer: render(FOOTER, { count: orders.length, total }),
  });
}
