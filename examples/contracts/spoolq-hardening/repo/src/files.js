import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const SUFFIX = '.json';

/** A directory with one file per name. */
export class Folder {
  #path;

  constructor(path) {
    this.#path = path;
  }

  async prepare() {
    await mkdir(this.#path, { recursive: true });
  }

  /** The names that have a file, in order. */
  async names() {
    const files = await readdir(this.#path);
    return files
      .filter((file) => file.endsWith(SUFFIX))
      .map((file) => file.slice(0, -SUFFIX.length))
      .sort();
  }

  /** The text of a file, or undefined. */
  async read(name) {
    return ifThere(() => readFile(this.pathOf(name), 'utf8'));
  }

  async write(name, text) {
    await writeFile(this.pathOf(name), text);
  }

  /** Says whether there was a file. */
  async remove(name) {
    const removed = await ifThere(async () => {
      await rm(this.pathOf(name));
      return true;
    });
    return removed ?? false;
  }

  /** Says whether there was a file. */
  async moveTo(folder, name) {
    const moved = await ifThere(async () => {
      await rename(this.pathOf(name), folder.pathOf(name));
      return true;
    });
    return moved ?? false;
  }

  pathOf(name) {
    return join(this.#path, `${name}${SUFFIX}`);
  }
}

async function ifThere(action) {
  try {
    return await action();
  } catch (error) {
    if (error.code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}
