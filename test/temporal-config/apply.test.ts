import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Client, Connection, type ScheduleOptions } from '@temporalio/client';
import { RawValue } from '@temporalio/common';
import { parse, stringify } from 'yaml';
import { nextOpening } from '../../domain/windows/schedule.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { declaredNamespace, knownAttributes } from '../../temporal-config/namespace.ts';
import type { ScheduleFile } from '../../temporal-config/scheduleFile.ts';
import { listSchedules } from '../../temporal-config/schedules.ts';
import { readDesiredConfig } from '../../temporal-config/desiredConfig.ts';
import type { Answer } from '../api/kubectl.ts';
import { programOf } from '../kit/program.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const samples = join(root, 'temporal-config');
const namespace = 'applied';

let sandbox: Sandbox;
let connection: Connection;
let temporal: Client;
let scratch: string;
/** A copy of temporal-config/ for each test. */
let folder: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  connection = await Connection.connect({ address: sandbox.temporalAddress });
  temporal = new Client({ connection, namespace });
  scratch = await mkdtemp(join(tmpdir(), 'nm-apply-'));
});

beforeEach(async () => {
  folder = await mkdtemp(join(scratch, 'folder-'));
  await cp(join(samples, 'namespace.yaml'), join(folder, 'namespace.yaml'));
  await cp(join(samples, 'schedules'), join(folder, 'schedules'), { recursive: true });
});

afterAll(async () => {
  await connection?.close();
  await rm(scratch, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

async function configure(...args: string[]): Promise<Answer> {
  const env = { ...process.env, ...sandbox.env, NODE_OPTIONS: '', TEMPORAL_NAMESPACE: namespace };
  const child = spawn(process.execPath, [programOf('temporal-config/main.ts'), ...args, '--dir', folder], {
    cwd: root,
    env,
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code: code as number, stdout, stderr };
}

const yearEnd = 'os-patch-year-end';

async function edit(name: string, change: (file: ScheduleFile) => unknown): Promise<void> {
  const path = join(folder, 'schedules', `${name}.yaml`);
  const file = parse(await readFile(path, 'utf8')) as ScheduleFile;
  await writeFile(path, stringify(change(file)));
}

async function retentionDays(): Promise<number> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  return Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 86_400;
}

const manualSchedule = (scheduleId: string): ScheduleOptions => ({
  scheduleId,
  spec: { cronExpressions: ['0 2 1 1 *'] },
  action: { type: 'startWorkflow', workflowType: 'x', taskQueue: 'x' },
});

describe('apply', () => {
  test('creates the namespace, its search attributes and the Schedules; a second diff finds no differences', async () => {
    const before = await configure('diff');
    expect(before).toMatchObject({ code: 1, stderr: '' });
    expect(before.stdout).toContain(
      [
        `namespace ${namespace}`,
        '  + retention: 30d',
        'search attributes',
        '  + NodeMaintenanceStage: Keyword',
        '  + NodeMaintenanceName: Keyword',
        '  + MaintenanceNodes: KeywordList',
        '  + KubernetesCluster: Keyword',
        'Schedule firmware-quarterly',
        '  + spec.calendar: { time: 01:30, daysOfWeek: [Sunday], daysOfMonth: [1, 2, 3, 4, 5, 6, 7], months: [1, 4, 7, 10] }',
        '  + spec.timeZone: America/New_York',
        '  + spec.exceptions: 2027-07-04',
        '  + policies.overlap: Skip',
        '  + policies.catchupWindow: 30m',
      ].join('\n'),
    );
    expect(before.stdout).toMatch(/\n4 things differ\.\n$/);
    expect(await configure('apply')).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(
        /\nnamespace applied: done\nsearch attributes: done\nSchedule firmware-quarterly: done\n/,
      ),
    });
    for (const verb of ['diff', 'apply', 'diff'])
      expect(await configure(verb)).toMatchObject({
        code: 0,
        stderr: '',
        stdout: expect.stringMatching(/\nNothing differs: retention, search attributes and 2 Schedules\.\n$/),
      });
    expect(await retentionDays()).toBe(30);
    const known = await knownAttributes(connection, namespace);
    expect(Object.fromEntries(known)).toMatchObject(declaredNamespace().searchAttributes);
  });

  test('creates Schedules that open windows at the times of the files, with the same input as the controller', async () => {
    for (const { schedule } of readDesiredConfig(folder, Date.now()).schedules) {
      const { spec, action } = schedule;
      const found = await temporal.schedule.getHandle(schedule.id).describe();
      const next = nextOpening({ ...spec, duration: '1h' }, Date.now());
      expect(found.info.nextActionTimes[0]?.getTime()).toBe(next);
      expect(found.state.paused).toBe(true);
      expect(found.action).toMatchObject({
        workflowType: 'maintenanceWindow',
        taskQueue: 'node-maintenance',
        workflowId: expect.stringMatching(`^maintenance-window-${action.input.name}-`),
        args: [action.input],
      });
    }
  });

  test('reverts changes made in Temporal, which diff shows field by field', async () => {
    const handle = temporal.schedule.getHandle(yearEnd);
    await handle.update(({ spec, policies, ...others }) => ({
      ...others,
      spec: { timezone: 'UTC', cronExpressions: ['0 4 28 12 *'], jitter: '5m' },
      policies: { ...policies, catchupWindow: '365 days' },
    }));
    const { stdout, code } = await configure('diff');
    expect(code).toBe(1);
    expect(stdout.split('\n').slice(1)).toEqual([
      `Schedule ${yearEnd}`,
      '  - spec.calendar: { time: 04:00, daysOfMonth: [28], months: [12] }',
      '  + spec.calendar: { time: 03:00, daysOfMonth: [28, 29], months: [12] }',
      '  - spec.timeZone: UTC',
      '  + spec.timeZone: Europe/Berlin',
      '  - policies.catchupWindow: 8760h',
      '  + policies.catchupWindow: 2h',
      '  - spec.jitter: 300000',
      '1 thing differs.',
      '',
    ]);
    expect(await configure('apply')).toMatchObject({ code: 0 });
    expect(await configure('diff')).toMatchObject({ code: 0 });
  });

  test('does not change a pause in Temporal, unless the file sets it', async () => {
    const handle = temporal.schedule.getHandle(yearEnd);
    await handle.unpause();
    expect((await configure('diff')).stdout).toContain('  - state.paused: false\n  + state.paused: true\n');
    await edit(yearEnd, ({ state: _, ...file }) => file);
    expect(await configure('diff')).toMatchObject({ code: 0 });
    await handle.pause('Ask Jane first');
    await edit(yearEnd, ({ policies, ...file }) => ({ ...file, policies: { ...policies, overlap: 'Skip' } }));
    expect(await configure('apply')).toMatchObject({ code: 0 });
    expect((await handle.describe()).state).toMatchObject({ paused: true, note: 'Ask Jane first' });
  });

  test('deletes Schedules only with --prune, and only those that it created', async () => {
    for (const id of ['unmanaged', 'maintenance-window-os-patch'])
      await temporal.schedule.create(manualSchedule(id));
    const memo = { managedBy: 'node-maintenance temporal-config' };
    await temporal.schedule.create({ ...manualSchedule('of-another-cluster'), memo });
    // The list of the SDK ends with an error at this one.
    const payload = { metadata: { encoding: Buffer.from('binary/unknown') }, data: Buffer.from('?') };
    const unreadable = { managedBy: RawValue.fromPayload(payload) };
    await temporal.schedule.create({ ...manualSchedule('of-another-writer'), memo: unreadable });
    await rm(join(folder, 'schedules/firmware-quarterly.yaml'));
    const note =
      'note: Schedule firmware-quarterly: no file defines it any more, and it still runs: --prune deletes it\n';
    const kept =
      'note: Schedule of-another-cluster: no file defines it, and it may be of another cluster, because no file uses its task queue x: if it is yours, delete it with temporal schedule delete --schedule-id of-another-cluster\n';
    expect((await configure('apply')).stderr).toBe(note + kept);
    expect(await configure('diff', '--prune')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Schedule firmware-quarterly\n  - exists, and no file defines it\n'),
    });
    await configure('apply', '--prune');
    const ids: string[] = [];
    for await (const { scheduleId } of listSchedules(temporal)) ids.push(scheduleId);
    expect(ids.toSorted()).toEqual([
      'maintenance-window-os-patch',
      'of-another-cluster',
      'of-another-writer',
      yearEnd,
      'unmanaged',
    ]);
    for (const id of ['of-another-cluster', 'of-another-writer'])
      await temporal.schedule.getHandle(id).delete();
  });

  test('shortens the retention only with --shorten-retention', async () => {
    const { searchAttributes } = declaredNamespace();
    const ask = (retention: string) =>
      writeFile(join(folder, 'namespace.yaml'), stringify({ retention, searchAttributes }));
    await ask('90d');
    expect(await configure('apply')).toMatchObject({ code: 0, stderr: '' });
    expect(await retentionDays()).toBe(90);
    await ask('30d');
    const note = `note: namespace ${namespace}: its retention of 90d is longer than 30d in namespace.yaml, and is kept: --shorten-retention shortens it, for the histories of runs that end from then on\n`;
    const stdout = expect.stringMatching(/\nNothing to change\.\n$/);
    for (const verb of ['diff', 'apply'])
      expect(await configure(verb)).toMatchObject({ code: 0, stderr: note, stdout });
    expect(await retentionDays()).toBe(90);
    expect(await configure('diff', '--shorten-retention')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('  - retention: 90d\n  + retention: 30d\n'),
    });
    expect(await configure('apply', '--shorten-retention')).toMatchObject({ code: 0, stderr: '' });
    expect(await retentionDays()).toBe(30);
  });

  test('changes nothing if a Schedule or a search attribute conflicts', async () => {
    await edit(yearEnd, (file) => ({ ...file, id: 'unmanaged' }));
    const own = join(folder, 'namespace.yaml');
    await writeFile(own, stringify({ retention: '60d', searchAttributes: { Rack: 'Keyword' } }));
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: { Rack: 3 } });
    const answer = await configure('apply');
    expect(answer.code).toBe(1);
    expect(answer.stderr).toContain(
      'conflict: Schedule unmanaged: it exists in Temporal and was not created by temporal-config: change the id in schedules/os-patch-year-end.yaml, or delete the Schedule (temporal schedule delete --schedule-id unmanaged)\n',
    );
    expect(answer.stderr).toContain(
      'conflict: search attribute Rack: the type is Int and must be Keyword; Temporal cannot change a type',
    );
    expect(answer.stderr).toContain('error: nothing was changed because of the conflicts above\n');
    expect(await retentionDays()).toBe(30);
  });
});

describe('the error of an invalid file names file, field and remedy, and nothing is changed', () => {
  const rows: { when: string; file: (good: ScheduleFile) => unknown; want: string }[] = [
    {
      when: 'the id of a Schedule of a MaintenanceWindow',
      file: (good) => ({ ...good, id: 'maintenance-window-os-patch' }),
      want: 'id: "maintenance-window-os-patch" is reserved for the Schedule of MaintenanceWindow "os-patch": change the id',
    },
    {
      when: 'an unknown zone',
      file: (good) => ({ ...good, spec: { ...good.spec, timeZone: 'Europe/Berln' } }),
      want: 'spec.timeZone: unknown time zone "Europe/Berln": use an IANA time zone',
    },
    {
      when: 'a date that does not exist',
      file: (good) => ({
        ...good,
        spec: { ...good.spec, calendar: [{ time: '03:00', daysOfMonth: [30], months: [2] }] },
      }),
      want: 'spec: the date never occurs, such as 30 February: correct day and month',
    },
    {
      when: 'openings that overlap',
      file: (good) => ({ ...good, action: { ...good.action, input: { name: 'os-patch', duration: '30h' } } }),
      want: 'action.input.duration: 30h is longer than the 1440 minutes between the openings',
    },
    {
      when: 'no catch-up window',
      file: (good) => ({ ...good, policies: { overlap: 'Skip' } }),
      want: 'policies.catchupWindow: expected a duration such as 2h, 90m or 1h30m (it is missing)',
    },
    {
      when: 'a catch-up window that is longer than the window',
      file: (good) => ({ ...good, policies: { ...good.policies, catchupWindow: '3h' } }),
      want: 'policies.catchupWindow: 3h is longer than action.input.duration, 2h: a window that opens so late has already ended',
    },
    {
      when: 'an overlap policy that ends windows',
      file: (good) => ({ ...good, policies: { ...good.policies, overlap: 'TerminateOther' } }),
      want: 'policies.overlap: expected Skip or BufferOne: ',
    },
    {
      when: 'the workflow id of another window',
      file: (good) => ({ ...good, action: { ...good.action, workflowId: 'maintenance-window-other' } }),
      want: 'action.workflowId: expected "maintenance-window-os-patch-" and a suffix for window "os-patch"',
    },
    {
      when: 'a misspelled field',
      file: (good) => ({ ...good, polices: {} }),
      want: 'polices: unknown field; remove it or correct its name',
    },
    {
      when: 'the id of another file',
      file: (good) => ({ ...good, id: 'firmware-quarterly' }),
      want: 'is also the id of schedules/firmware-quarterly.yaml',
    },
  ];

  test.each(rows)('$when', async ({ file, want }) => {
    await edit(yearEnd, file);
    expect(() => readDesiredConfig(folder, Date.now())).toThrow(want);
    expect(() => readDesiredConfig(folder, Date.now())).toThrow(
      join(folder, 'schedules/os-patch-year-end.yaml: '),
    );
  });

  test('several invalid files are reported together, with exit code 2', async () => {
    await edit(yearEnd, (good) => ({ ...good, spec: { ...good.spec, timeZone: 'Mars' } }));
    await writeFile(join(folder, 'schedules/broken.json'), '{');
    await writeFile(
      join(folder, 'namespace.yaml'),
      stringify({ retention: '1h', searchAttributes: { MaintenanceNodes: 'Text' } }),
    );
    const answer = await configure('apply');
    expect(answer).toMatchObject({ code: 2, stdout: '' });
    const lines = answer.stderr.trimEnd().split('\n');
    expect(lines).toEqual([
      expect.stringContaining('namespace.yaml: retention: expected 24h or more (got "1h")'),
      expect.stringContaining('broken.json: cannot be read: '),
      expect.stringContaining('spec.timeZone: unknown time zone "Mars"'),
    ]);
    expect(await configure('diff', '--nonsense')).toMatchObject({ code: 2, stdout: '' });
  });
});
