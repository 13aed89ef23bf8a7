import { isDeepStrictEqual } from 'node:util';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { MaintenanceWindow, WindowSchedule } from '../../api/maintenanceWindow.ts';
import {
  WINDOW_OVERRIDE_MANAGER,
  WindowAnnotation,
  WindowOverrideAnnotation,
  WindowRequestAnnotation,
} from '../../api/names.ts';
import { decideAdvance } from '../../domain/windows/advance.ts';
import { canAdvance } from '../../domain/windows/nodeOutcome.ts';
import { openingProblems, pauseOf, scheduleOf, withSkippedDate } from '../../domain/windows/overrides.ts';
import { nextOpening } from '../../domain/windows/schedule.ts';
import {
  type WindowMaintenance,
  windowMaintenancesOf,
  workJobRef,
  workTypeOf,
} from '../../domain/windows/windowMaintenance.ts';
import type { JsonPatchOperation, Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { annotateWindowMaintenance, readWindowMaintenances, readWorkJob } from '../../kube/windowObjects.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { permitted } from '../maintenance/maintenances.ts';
import { outputOption } from '../options.ts';
import { formatObject, print, CommandError, type Structured } from '../output.ts';
import { windowName } from '../windowName.ts';
import { getWindow, windowTitleOf } from './windowObjects.ts';
import { requestOf } from './windowRequest.ts';
import { dateIn } from './windowsView.ts';

interface WindowOptions extends ClusterOptions {
  readonly output?: Structured;
}

interface NodeOptions extends WindowOptions {
  readonly node?: readonly string[];
}

interface SkipOptions extends WindowOptions {
  readonly date?: string;
}

interface PauseOptions extends WindowOptions {
  readonly reason?: string;
}

const { Paused, SkippedDates } = WindowOverrideAnnotation;
const windowRemedy = 'bind the ClusterRole node-maintenance-scheduler';
const nodeRemedy = 'bind the ClusterRole node-maintenance-operator';

/** Adds `kubectl maintenance window approve | pause | resume | skip | cancel | advance`. */
export function addWindowVerbs(program: Command): void {
  const window = program
    .command('window')
    .description('manage a maintenance window; kubectl maintenance windows lists them')
    .helpCommand(false);
  const verb = (name: string, description: string) =>
    window
      .command(name)
      .description(description)
      .argument('<window>', 'name of the MaintenanceWindow')
      .addOption(outputOption());
  const nodes = () => new Option('--node <name...>', 'names of nodes').argParser(nodeNames);
  verb('approve', 'approve the maintenance of nodes, or of all nodes, in the open window')
    .addOption(nodes())
    .action(actionOf(approve));
  verb('advance', 'mark the work on nodes as done: they are uncordoned when Ready')
    .addOption(nodes().makeOptionMandatory())
    .action(actionOf(advance, nodeRemedy));
  verb('skip', 'skip one opening: adds its date to an annotation of the window')
    .option(
      '--date <date>',
      'such as 2026-12-24, in the time zone of the window; default: the next one',
      date,
    )
    .action(actionOf(skip));
  verb('pause', 'start no more nodes, and open no window; nodes in progress continue')
    .option('--reason <text>', 'why, for others who look at the window; default: the time', pauseReason)
    .action(actionOf(pause));
  verb('resume', 'undo pause').action(actionOf(resume));
  verb('cancel', 'end the open window, and uncordon nodes whose work is not done').action(actionOf(cancel));
}

/** Executes a verb. Resolves with what to print after the name of the window. */
type Act<Options> = (kube: Kube, window: MaintenanceWindow, options: Options) => Promise<string>;

/** Returns the action of a command. It prints the result as a sentence, or the window with `-o`. */
function actionOf<Options extends WindowOptions>(act: Act<Options>, remedy = windowRemedy) {
  return async (text: string, _options: unknown, command: Command): Promise<void> => {
    const options = command.optsWithGlobals<Options>();
    const name = windowName(text);
    await withCluster(options, async (kube) => {
      const window = await permitted(getWindow(kube, name), windowRemedy);
      const result = await permitted(act(kube, window, options), remedy);
      const { output } = options;
      print(
        output === undefined
          ? `${windowTitleOf(name)} ${result}`
          : formatObject(await permitted(getWindow(kube, name), windowRemedy), output),
      );
    });
  };
}

/** Adds names of nodes from a flag that may be repeated, or contain a list with commas: no name contains one. */
function nodeNames(text: string, given: readonly string[] = []): string[] {
  const names = text.split(',');
  // Without names, a request is about all nodes.
  if (names.includes('')) throw new InvalidArgumentError('expected names of nodes, such as node-1,node-2');
  return [...given, ...names];
}

function date(text: string): string {
  const isDate =
    /^\d{4}-\d{2}-\d{2}$/.test(text) &&
    !Number.isNaN(Date.parse(text)) &&
    new Date(text).toISOString().startsWith(text);
  if (!isDate) throw new InvalidArgumentError('expected a date such as 2026-12-24');
  return text;
}

/** The apiserver accepts no other value of the annotation. */
function pauseReason(text: string): string {
  if (/^\S.{0,255}$/u.test(text) && !/\p{Cc}/u.test(text) && text !== 'false') return text;
  throw new InvalidArgumentError('expected one line of at most 256 characters');
}

/** Approves by an annotation that names the opening, because an approval applies to no other one. */
async function approve(kube: Kube, window: MaintenanceWindow, { node = [] }: NodeOptions): Promise<string> {
  const { approval } = window.spec;
  const title = windowTitleOf(window.metadata.name);
  if (approval === 'None') throw new CommandError(`${title} requires no approval: spec.approval is None`);
  if (approval === 'PerWindow' && node.length > 0)
    throw new CommandError(
      `${title} can be approved only as a whole: spec.approval is PerWindow; omit --node`,
    );
  const nodes = node.length === 0 ? {} : { nodes: node };
  await requestOf(kube, window, { annotation: WindowRequestAnnotation.Approve, verb: 'approve', ...nodes });
  return node.length === 0
    ? 'approved until the window ends'
    : `approved for ${node.join(', ')} until the window ends`;
}

/** Advances by annotations of the NodeMaintenances, which also works while the window is closed. */
async function advance(
  kube: Kube,
  { metadata }: MaintenanceWindow,
  { node = [] }: NodeOptions,
): Promise<string> {
  const existing = await readWindowMaintenances(kube, [metadata.name]);
  const maintenances = windowMaintenancesOf(metadata.name, existing).filter(({ maintenance }) =>
    canAdvance(maintenance),
  );
  const chosen = node.map((name) => {
    const found = maintenances.find((one) => one.node === name);
    if (found === undefined)
      throw new CommandError(
        `${windowTitleOf(metadata.name)} does not maintain node "${name}" now; kubectl maintenance windows ${metadata.name} lists its nodes`,
      );
    return found;
  });
  for (const found of chosen) await rejectWhileJobRuns(kube, found);
  for (const { maintenance } of chosen)
    await annotateWindowMaintenance(kube, maintenance, { [WindowAnnotation.WorkDone]: 'true' }, fieldManager);
  return `work on ${node.join(', ')} marked as done: uncordoned when Ready, at once if it had failed`;
}

/** The annotation would otherwise be rejected by the controller, which only an Event reports. */
async function rejectWhileJobRuns(kube: Kube, { node, maintenance }: WindowMaintenance): Promise<void> {
  if (workTypeOf(maintenance) !== 'Job') return;
  const decision = decideAdvance(maintenance, node, await readWorkJob(kube, workJobRef(maintenance)));
  if (decision.kind === 'Rejected') throw new CommandError(decision.problem);
}

/** Skips by annotation: a manifest in git may own the exceptions of the schedule. */
async function skip(
  kube: Kube,
  window: MaintenanceWindow,
  { date: requested }: SkipOptions,
): Promise<string> {
  const schedule = scheduleOf(window);
  const nowMs = kube.now().getTime();
  const next = nextDate(schedule, nowMs);
  const skipped = requested ?? next;
  const title = windowTitleOf(window.metadata.name);
  const [problem = 'there is nothing to skip'] = openingProblems(window, nowMs);
  if (skipped === undefined) throw new CommandError(`${title} does not open any more: ${problem}`);
  if (window.spec.schedule.exceptions?.includes(skipped) === true)
    return `unchanged: ${skipped} is already an exception of its schedule`;
  if (schedule.exceptions?.includes(skipped) === true) return `unchanged: ${skipped} is already skipped`;
  if (!opensOn(schedule, skipped, nowMs))
    throw new CommandError(
      `${title} does not open on ${skipped}, so that nothing would be skipped: ${next === undefined ? problem : `it opens next on ${next}`}`,
    );
  await annotate(kube, window, SkippedDates, withSkippedDate(window, skipped));
  return `does not open on ${skipped}: the date was added to its annotation ${SkippedDates}`;
}

const dayMs = 86_400_000;

/** Reports whether the schedule still has an opening on this day (YYYY-MM-DD), in its time zone. */
function opensOn(schedule: WindowSchedule, day: string, nowMs: number): boolean {
  // No zone differs from UTC by a day.
  let at = Math.max(nowMs, Date.parse(`${day}T00:00:00Z`) - dayMs);
  for (;;) {
    const next = nextOpening(schedule, at);
    if (next === undefined) return false;
    const opening = dateIn(new Date(next).toISOString(), schedule.timeZone);
    if (opening >= day) return opening === day;
    at = next;
  }
}

/** Returns the date of the next opening in the time zone of the schedule. */
function nextDate(schedule: WindowSchedule, nowMs: number): string | undefined {
  const next = nextOpening(schedule, nowMs);
  return next === undefined ? undefined : dateIn(new Date(next).toISOString(), schedule.timeZone);
}

/** Pauses by annotation: a manifest in git may own spec.suspend, and would revert it. */
async function pause(
  kube: Kube,
  window: MaintenanceWindow,
  { reason = `since ${kube.now().toISOString()}` }: PauseOptions,
): Promise<string> {
  const isPaused = pauseOf(window) !== undefined;
  if (!isPaused) await annotate(kube, window, Paused, reason);
  const paused = isPaused ? 'unchanged: already paused' : 'paused';
  return window.status?.active === undefined
    ? `${paused}: it does not open until it is resumed`
    : `${paused}: it starts no more nodes and does not open until it is resumed; nodes in progress continue`;
}

/** Undoes every pause of the window, but not what its manifest says. */
async function resume(kube: Kube, window: MaintenanceWindow): Promise<string> {
  const { metadata, spec, status } = window;
  const isPaused = pauseOf(window) !== undefined;
  const isOpeningPaused = status?.active?.requests?.paused === true;
  const remedy = `spec.suspend is true, so that it does not open: set it to false where its manifest is kept, or run kubectl patch mw ${metadata.name} --type merge -p '{"spec":{"suspend":false}}'`;
  if (!isPaused && !isOpeningPaused) {
    if (!spec.suspend) return 'unchanged: it is not paused';
    throw new CommandError(`${windowTitleOf(metadata.name)} is not paused but suspended: ${remedy}`);
  }
  if (isPaused) await annotate(kube, window, Paused, undefined);
  if (isOpeningPaused)
    await requestOf(kube, window, { annotation: WindowRequestAnnotation.Resume, verb: 'resume' });
  return spec.suspend ? `resumed; ${remedy}` : 'resumed';
}

async function cancel(kube: Kube, window: MaintenanceWindow): Promise<string> {
  await requestOf(kube, window, { annotation: WindowRequestAnnotation.Cancel, verb: 'cancel' });
  return 'cancelled: it ends now, and nodes whose work is not done are uncordoned';
}

const fieldManager = 'kubectl-maintenance';

/** Sets or removes an annotation of the window, if nobody has changed the annotation since it was read. */
async function annotate(
  kube: Kube,
  { metadata: { name, uid, annotations } }: MaintenanceWindow,
  key: string,
  value: string | undefined,
): Promise<void> {
  const all = '/metadata/annotations';
  const path = `${all}/${key.replace('/', '~1')}`;
  const missing: JsonPatchOperation[] = [
    { op: 'test', path: all, value: null },
    { op: 'add', path: all, value: {} },
  ];
  const operations: JsonPatchOperation[] = [
    { op: 'test', path: '/metadata/uid', value: uid },
    ...(annotations === undefined ? missing : []),
    { op: 'test', path, value: annotations?.[key] ?? null },
    value === undefined ? { op: 'remove', path } : { op: 'add', path, value },
  ];
  try {
    const options = { fieldManager: WINDOW_OVERRIDE_MANAGER };
    await kube.jsonPatch(resources.maintenanceWindows, { name }, operations, options);
  } catch (error) {
    if (!isKubeError(error, 'Invalid', 'Conflict')) throw error;
    const { metadata } = await getWindow(kube, name);
    if (metadata.uid === uid && isDeepStrictEqual(metadata.annotations, annotations)) throw error;
    throw new CommandError(
      `${windowTitleOf(name)} was changed by another client in the meantime: check it and try again`,
      { cause: error },
    );
  }
}
