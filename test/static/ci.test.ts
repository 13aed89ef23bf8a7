import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { root } from '../../scripts/tools.ts';
import { Requirement } from '../kit/requirements.ts';

test.each(['.ci/run', 'scripts/matrix/matrix.ts', 'CONTRIBUTING.md'])(
  '%s lets no test be skipped because the machine lacks what it needs',
  async (file) => {
    const text = await readFile(join(root, file), 'utf8');
    expect(text).toContain(Object.values(Requirement).join(','));
  },
);
