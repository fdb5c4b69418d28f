/** Kilograms of an order. */
export function totalOf(order) {
  return (order.lines ?? []).reduce((sum, line) => sum + (line.kg ?? 0), 0);
}
