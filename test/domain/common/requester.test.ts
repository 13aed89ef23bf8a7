import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { agentUser, NODE_NAME_EXTRA } from '../../../api/names.ts';
import {
  authorityOf,
  decideNode,
  denialOf,
  gateDenialOf,
  nodeOfAgent,
  recordOfUser,
  recordOfWindow,
} from '../../../domain/common/requester.ts';

const user = fc.record({
  username: fc.string({ minLength: 1 }),
  uid: fc.string({ minLength: 1 }),
  groups: fc.array(fc.string()),
  extra: fc.dictionary(fc.string(), fc.array(fc.string())),
});

describe('the record of a requester', () => {
  test('is read as it was written, whatever the names contain', () => {
    fc.assert(
      fc.property(user, (requester) => {
        expect(authorityOf(JSON.stringify(requester))).toEqual({ kind: 'User', requester });
      }),
    );
  });

  test('of a user is never that of a window, and the other way round', () => {
    fc.assert(
      fc.property(user, fc.string({ minLength: 1 }), (requester, window) => {
        expect(authorityOf(JSON.stringify(requester)).kind).toBe('User');
        expect(authorityOf(recordOfUser(requester.username)).kind).toBe('User');
        expect(authorityOf(recordOfWindow(window))).toEqual({ kind: 'Window', window });
      }),
    );
  });

  test('that is anything else names nobody', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        const authority = authorityOf(text);
        if (authority.kind === 'User') expect(authority.requester.username).not.toBe('');
        else if (authority.kind === 'Window') expect(authority.window).not.toBe('');
      }),
    );
  });

  test.each([
    undefined,
    '',
    'null',
    '[]',
    '{}',
    'user jane',
    '{"username":""}',
    '{"username":"jane\u0001"}',
    '{"username":"jane","groups":"admins"}',
    '{"username":"jane","groups":[1]}',
    '{"username":"jane","extra":{"scopes":"all"}}',
    '{"username":"jane","window":"patches"}',
    '{"window":["patches"]}',
  ])('names nobody if it is %j', (text) => {
    expect(authorityOf(text)).toEqual({ kind: 'Unknown' });
  });

  test('has no uid if the apiserver knows none', () => {
    const requester = { username: 'jane', uid: undefined, groups: ['a'], extra: {} };
    expect(authorityOf('{"username":"jane","uid":"","groups":["a"],"extra":{}}')).toEqual({
      kind: 'User',
      requester,
    });
  });
});

test('only a permission lets anything begin, and what was started is never abandoned', () => {
  fc.assert(
    fc.property(fc.boolean(), fc.boolean(), (isPermitted, isStarted) => {
      const decision = decideNode(isPermitted, isStarted);
      expect(decision === 'Proceed').toBe(isPermitted);
      expect(decision === 'Skip').toBe(!isPermitted && !isStarted);
      expect(decision === 'Hold').toBe(!isPermitted && isStarted);
    }),
  );
});

test('the denial of a policy names the user and what suffices', () => {
  expect(gateDenialOf(authorityOf(recordOfUser('mallory')))).toBe(
    'user "mallory", who changed this last, may not gate it: grant the verb gate on nodereadinesses with its name, or select other nodes',
  );
  expect(gateDenialOf({ kind: 'Unknown' })).toBe(
    'who changed this last is not recorded: change the spec as a user who may gate it',
  );
});

test('a denial names the user and the remedy', () => {
  const authority = authorityOf(recordOfUser('mallory'));
  expect(denialOf(authority)).toBe(
    'user "mallory", who requested this, may not delete it: grant the verb delete on the node, or select other nodes',
  );
  expect(denialOf(authorityOf(recordOfUser('m'.repeat(5_000)))).length).toBeLessThan(256);
  expect(denialOf({ kind: 'Unknown' })).toBe(
    'who requested this is not recorded: change the spec, for example its reason, as a user who may delete it',
  );
});

describe('the node that a user may maintain as its agent', () => {
  const agent = agentUser('node-maintenance');
  const bound = { [NODE_NAME_EXTRA]: ['node-1'] };

  test.each([
    { when: 'the token of the agent is bound to it', username: agent, extra: bound, node: 'node-1' },
    { when: 'the token is bound to no node', username: agent, extra: {}, node: undefined },
    { when: 'the user has no extra', username: agent, extra: undefined, node: undefined },
    {
      when: 'the token names two',
      username: agent,
      extra: { [NODE_NAME_EXTRA]: ['node-1', 'node-2'] },
      node: undefined,
    },
    { when: 'the name is empty', username: agent, extra: { [NODE_NAME_EXTRA]: [''] }, node: undefined },
    {
      when: 'it is the agent of another installation',
      username: agentUser('other'),
      extra: bound,
      node: undefined,
    },
    { when: 'it is another user on the node', username: 'system:node:node-1', extra: bound, node: undefined },
  ])('$when: $node', ({ username, extra, node }) => {
    expect(nodeOfAgent({ username, ...(extra && { extra }) }, 'node-maintenance')).toBe(node);
  });

  test('is none for every other user', () => {
    fc.assert(
      fc.property(user, (requester) => {
        fc.pre(requester.username !== agent);
        expect(nodeOfAgent({ ...requester, extra: bound }, 'node-maintenance')).toBeUndefined();
      }),
    );
  });
});
