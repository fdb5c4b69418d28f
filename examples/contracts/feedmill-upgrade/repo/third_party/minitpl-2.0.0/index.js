const TAG = /^[ \t]*(\{\{(?:for \w+ in [\w.]+|end)\}\})[ \t]*\n|\{\{([^}]*)\}\}/gm;
const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** A template that cannot be read, or a field that is missing. */
export class TemplateError extends Error {
  name = 'TemplateError';
}

/** Read a template once, to fill it many times. */
export function compile(template, { escape = 'html', missing = 'error' } = {}) {
  if (!['html', 'none'].includes(escape) || !['error', 'empty'].includes(missing)) {
    throw new TemplateError(`unknown option: ${escape}, ${missing}`);
  }
  const root = parse(template.replace(/\n$/, ''));
  return { render: (data) => fill(root.children, data, { escape, missing }) };
}

function parse(template) {
  const stack = [{ children: [] }];
  let position = 0;
  for (const tag of template.matchAll(TAG)) {
    stack.at(-1).children.push(template.slice(position, tag.index));
    position = tag.index + tag[0].length;
    const text = (tag[1]?.slice(2, -2) ?? tag[2]).trim();
    const loop = /^for (\w+) in ([\w.]+)$/.exec(text);
    if (loop !== null) {
      const node = { name: loop[1], path: loop[2], children: [] };
      stack.at(-1).children.push(node);
      stack.push(node);
    } else if (text === 'end' && stack.length > 1) {
      stack.pop();
    } else if (/^[\w.]+$/.test(text) && text !== 'end') {
      stack.at(-1).children.push({ path: text });
    } else {
      throw new TemplateError(`cannot read {{${text}}}`);
    }
  }
  if (stack.length > 1) {
    throw new TemplateError('a loop has no end');
  }
  stack[0].children.push(template.slice(position));
  return stack[0];
}

function fill(children, data, options) {
  return children.map((child) => fillOne(child, data, options)).join('');
}

function fillOne(child, data, options) {
  if (typeof child === 'string') {
    return child;
  }
  const value = child.path.split('.').reduce((object, key) => object?.[key], data) ?? undefined;
  if (value === undefined && options.missing === 'error') {
    throw new TemplateError(`missing: ${child.path}`);
  }
  if (child.children !== undefined) {
    return (value ?? []).map((item) => fill(child.children, { ...data, [child.name]: item }, options)).join('');
  }
  const text = String(value ?? '');
  return options.escape === 'html' ? text.replace(/[&<>"']/g, (char) => ENTITIES[char]) : text;
}
