import { readFileSync } from 'node:fs';

import { render } from '#minitpl';

/** Fill one of the templates of this package. */
export function fill(name, data) {
  const template = readFileSync(new URL(`../templates/${name}`, import.meta.url), 'utf8');
  return render(template, data);
}
