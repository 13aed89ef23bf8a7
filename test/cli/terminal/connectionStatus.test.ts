import { expect, test } from '@jest/globals';
import { ConnectionStatus } from '../../../cli/terminal/connectionStatus.ts';

test('prints each connection error once, and when the connection is restored', () => {
  const lines: string[] = [];
  const connection = new ConnectionStatus((text) => lines.push(text));
  for (const error of [undefined, 'refused', 'refused', 'timed out', undefined, undefined])
    connection.report(error);
  expect(lines).toEqual([
    'Connection to the apiserver lost, retrying: refused',
    'Connection to the apiserver lost, retrying: timed out',
    'Connection to the apiserver restored.',
  ]);
});
