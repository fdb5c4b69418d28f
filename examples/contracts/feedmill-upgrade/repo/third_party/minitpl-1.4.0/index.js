const FIELD = /\{\{([\w.]+)\}\}/g;

/** Fill a template. */
export function render(template, data) {
  const loop = /\{\{#each ([\w.]+)\}\}/.exec(template);
  if (loop === null) {
    return template.replace(FIELD, (_, path) => String(lookup(data, path) ?? ''));
  }
  const end = findEnd(template, loop.index + loop[0].length);
  const body = template.slice(loop.index + loop[0].length, end);
  const items = lookup(data, loop[1]) ?? [];
  return [
    render(template.slice(0, loop.index), data),
    ...items.map((item) => render(body, { ...data, this: item })),
    render(template.slice(end + '{{/each}}'.length), data),
  ].join('');
}

function findEnd(template, from) {
  const marks = /\{\{#each [\w.]+\}\}|\{\{\/each\}\}/g;
  marks.lastIndex = from;
  for (let depth = 1, mark; (mark = marks.exec(template)) !== null; ) {
    depth += mark[0] === '{{/each}}' ? -1 : 1;
    if (depth === 0) {
      return mark.index;
    }
  }
  throw new Error('a loop has no end');
}

function lookup(data, path) {
  return path.split('.').reduce((value, key) => value?.[key], data);
}
