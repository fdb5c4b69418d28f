/**
 * A string key for a query: the same for equal parameters, whatever the order of their properties.
 *
 * Parameters are plain data: what JSON can express. Properties with the value `undefined` count as absent.
 */
export function queryKey(name, parameters = {}) {
  return `${name}:${JSON.stringify(sorted(parameters))}`;
}

function sorted(value) {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  if (value === null || typeof value !== 'object') {
    return value;
  }
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((property) => [property, sorted(value[property])]),
  );
}
