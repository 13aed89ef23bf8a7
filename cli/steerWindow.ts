import { type Command, InvalidArgumentError, Option } from 'commander';
import type { MaintenanceWindow, WindowSchedule } from '../api/maintenanceWindow.ts';
import { SUSPENDED_BY_PAUSE_ANNOTATION, TurnAnnotation, WORK_NAMESPACE } from '../api/names.ts';
import { jobName } from '../domain/revision.ts';
import { isUnfinished } from '../domain/turn.ts';
import { jobWorks } from '../domain/turnVerdict.ts';
import { isToEnd } from '../domain/windowProgress.ts';
import { nextOpening } from '../domain/windowSchedule.ts';
import type { SeenTurn } from '../domain/windowSummary.ts';
import type { JsonPatchOperation, Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { permitted } from './maintenances.ts';
import { orderRun } from './orders.ts';
import { outputOption } from './options.ts';
import { Refusal, say, type Structured, structuredOne } from './output.ts';
import { turnsIn, windowCalled, windowName, windowTitleOf } from './windowObjects.ts';
import { dateIn } from './windowsView.ts';

interface SteeringOptions extends ClusterOptions {
  readonly output?: Structured;
}

interface NodeOptions extends SteeringOptions {
  readonly node?: readonly string[];
}

interface SkipOptions extends SteeringOptions {
  readonly date?: string;
}

const remedy = 'bind the ClusterRole node-maintenance-scheduler';
const remedyForTurns = 'bind the ClusterRole node-maintenance-operator';

/** kubectl maintenance window approve | pause | resume | skip | cancel | advance */
export function addWindowVerbs(program: Command): void {
  const window = program
    .command('window')
    .description('steer a maintenance window; kubectl maintenance windows shows them')
    .helpCommand(false);
  const verb = (name: string, description: string) =>
    window
      .command(name)
      .description(description)
      .argument('<window>', 'name of the MaintenanceWindow')
      .addOption(outputOption());
  const nodes = () => new Option('--node <name...>', 'of which nodes');
  verb('approve', 'let nodes begin their turn in the window that is open')
    .addOption(nodes())
    .action(acting(approve));
  verb('advance', 'end turns whose work is done, or need not be done: their nodes are given back')
    .addOption(nodes().makeOptionMandatory())
    .action(acting(advance, remedyForTurns));
  verb('skip', 'leave out one opening: its date becomes an exception of the schedule')
    .option('--date <date>', 'such as 2026-12-24, in the zone of the window; the next one if not given', date)
    .action(acting(skip));
  verb('pause', 'begin no further turn, and open no window; turns under way go on').action(acting(pause));
  verb('resume', 'undo pause').action(acting(resume));
  verb('cancel', 'end the window that is open, and give back nodes whose work is not done').action(
    acting(cancel),
  );
}

type Act<Options> = (kube: Kube, window: MaintenanceWindow, options: Options) => Promise<string>;

/** Does it, and says what became of the window: in words, or as an object for scripts. */
function acting<Options extends SteeringOptions>(act: Act<Options>, forRights = remedy) {
  return async (text: string, _options: unknown, command: Command): Promise<void> => {
    const options = command.optsWithGlobals<Options>();
    const name = windowName(text);
    await withCluster(options, async (kube) => {
      const window = await permitted(windowCalled(kube, name), remedy);
      const words = await permitted(act(kube, window, options), forRights);
      const { output } = options;
      say(
        output === undefined
          ? `${windowTitleOf(name)} ${words}`
          : structuredOne(await permitted(windowCalled(kube, name), remedy), output),
      );
    });
  };
}

function date(text: string): string {
  const isDate =
    /^\d{4}-\d{2}-\d{2}$/.test(text) &&
    !Number.isNaN(Date.parse(text)) &&
    new Date(text).toISOString().startsWith(text);
  if (!isDate) throw new InvalidArgumentError('expected a date such as 2026-12-24');
  return text;
}

/** In Temporal: what people have approved is of one opening. */
async function approve(kube: Kube, window: MaintenanceWindow, { node = [] }: NodeOptions): Promise<string> {
  const { approval } = window.spec;
  const title = windowTitleOf(window.metadata.name);
  if (approval === 'None') throw new Refusal(`${title} needs no approval: spec.approval is None`);
  if (approval === 'PerWindow' && node.length > 0)
    throw new Refusal(`${title} is approved as a whole (spec.approval is PerWindow): leave --node out`);
  await order(kube, window, 'approve', node.length === 0 ? undefined : { nodes: [...node] });
  return node.length === 0 ? 'is approved until it ends' : `has ${node.join(', ')} approved until it ends`;
}

/** By annotation of the NodeMaintenances, so that it can be done while the window is closed too. */
async function advance(
  kube: Kube,
  { metadata }: MaintenanceWindow,
  { node = [] }: NodeOptions,
): Promise<string> {
  const { items } = await kube.list(resources.nodeMaintenances);
  const turns = turnsIn(metadata.name, items).filter(({ maintenance }) => isToEnd(maintenance));
  const chosen = node.map((name) => {
    const turn = turns.find((one) => one.node === name);
    if (turn === undefined)
      throw new Refusal(
        `node "${name}" has no turn in ${windowTitleOf(metadata.name)} that could be ended; kubectl maintenance windows ${metadata.name} lists them`,
      );
    return turn;
  });
  for (const turn of chosen) await refuseWhileItWorks(kube, turn);
  for (const { maintenance } of chosen) {
    const { name, uid } = maintenance.metadata;
    const body = { metadata: { uid, annotations: { [TurnAnnotation.Advance]: 'true' } } };
    await kube.mergePatch(resources.nodeMaintenances, { name }, body, { fieldManager });
  }
  const each = node.length === 1 ? 'the node' : 'each node';
  return `ends the turn of ${node.join(', ')}: ${each} is given back as soon as it is ready, or at once if its turn had failed`;
}

/** An order that waited for the Job would stand when that fails. */
async function refuseWhileItWorks(kube: Kube, { node, work, maintenance }: SeenTurn): Promise<void> {
  if (work !== 'Job') return;
  const key = { namespace: WORK_NAMESPACE, name: jobName(maintenance.metadata.name) };
  const job = await kube.get(resources.jobs, key);
  if (isUnfinished(job)) throw new Refusal(jobWorks(job, node));
}

async function skip(kube: Kube, window: MaintenanceWindow, { date: asked }: SkipOptions): Promise<string> {
  const { schedule } = window.spec;
  const skipped = asked ?? nextDate(schedule, kube.now().getTime());
  if (skipped === undefined)
    throw new Refusal(
      `${windowTitleOf(window.metadata.name)} does not open any more: there is nothing to skip`,
    );
  const exceptions = schedule.exceptions ?? [];
  if (exceptions.includes(skipped)) return `does not open on ${skipped} already`;
  const wanted = [...exceptions, skipped].toSorted();
  await change(kube, window, [{ op: 'add', path: '/spec/schedule/exceptions', value: wanted }]);
  return `does not open on ${skipped}: it is an exception of its schedule now`;
}

/** On which the window opens next, in its zone. */
function nextDate(schedule: WindowSchedule, now: number): string | undefined {
  const next = nextOpening(schedule, now);
  return next === undefined ? undefined : dateIn(new Date(next).toISOString(), schedule.timeZone);
}

async function pause(kube: Kube, window: MaintenanceWindow): Promise<string> {
  const { suspend } = window.spec;
  if (!suspend) await suspended(kube, window);
  const isOurs = !suspend || hasNote(window);
  if (window.status?.active === undefined)
    return isOurs
      ? 'is paused: no window opens until resume'
      : 'is suspended already: no window opens until its spec.suspend is false';
  await order(kube, window, 'pause');
  return `is paused: no further turn begins${isOurs ? ', and no window opens,' : ''} until resume; turns under way go on`;
}

/** With a note, so that resume lets no window open that was suspended before. */
async function suspended(kube: Kube, window: MaintenanceWindow): Promise<void> {
  const place = '/metadata/annotations';
  const placed: JsonPatchOperation[] =
    window.metadata.annotations === undefined
      ? [
          { op: 'test', path: place, value: null },
          { op: 'add', path: place, value: {} },
        ]
      : [];
  const note: JsonPatchOperation = { op: 'add', path: pathOfNote, value: 'true' };
  await change(kube, window, [...placed, note, { op: 'add', path: '/spec/suspend', value: true }]);
}

const pathOfNote = `/metadata/annotations/${SUSPENDED_BY_PAUSE_ANNOTATION.replace('/', '~1')}`;

function hasNote({ metadata }: MaintenanceWindow): boolean {
  return metadata.annotations?.[SUSPENDED_BY_PAUSE_ANNOTATION] !== undefined;
}

async function resume(kube: Kube, window: MaintenanceWindow): Promise<string> {
  const { metadata, spec, status } = window;
  const staysSuspended = spec.suspend && !hasNote(window);
  const way = `kubectl patch mw ${metadata.name} --type merge -p '{"spec":{"suspend":false}}' lets its schedule open it`;
  if (staysSuspended && status?.active === undefined)
    throw new Refusal(
      `${windowTitleOf(metadata.name)} was suspended by other means than pause, and stays so: ${way}`,
    );
  if (hasNote(window))
    await change(kube, window, [
      { op: 'remove', path: pathOfNote },
      { op: 'add', path: '/spec/suspend', value: false },
    ]);
  if (status?.active !== undefined) await order(kube, window, 'resume');
  return staysSuspended ? `goes on, and stays suspended as it was before the pause: ${way}` : 'goes on';
}

async function cancel(kube: Kube, window: MaintenanceWindow): Promise<string> {
  await order(kube, window, 'cancel');
  return 'ends now: nodes whose work is not done are given back';
}

/** By an update of the run that has the window open. */
async function order(
  kube: Kube,
  { metadata: { name }, status }: MaintenanceWindow,
  verb: string,
  input?: object,
): Promise<void> {
  const active = status?.active;
  const title = windowTitleOf(name);
  if (active === undefined) {
    const next = status?.nextTime === undefined ? '' : `, and opens next at ${status.nextTime}`;
    throw new Refusal(`${title} is not open${next}: there is nothing to ${verb}`);
  }
  await orderRun(kube, { title, workflowId: active.workflowId, verb, input });
}

const fieldManager = 'kubectl-maintenance';

/** Only of the object that was read, as it was: whoever was faster may have wanted something else. */
async function change(
  kube: Kube,
  { metadata: { name, uid, resourceVersion: _, generation } }: MaintenanceWindow,
  operations: JsonPatchOperation[],
): Promise<void> {
  const tests: JsonPatchOperation[] = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/generation', value: generation },
  ];
  try {
    await kube.jsonPatch(resources.maintenanceWindows, { name }, [...tests, ...operations], { fieldManager });
  } catch (error) {
    if (!isKubeError(error, 'Invalid', 'Conflict')) throw error;
    const now = await windowCalled(kube, name);
    if (now.metadata.uid === uid && now.metadata.generation === generation) throw error;
    throw new Refusal(
      `${windowTitleOf(name)} was changed by somebody else meanwhile: look at it, and try again`,
      { cause: error },
    );
  }
}
