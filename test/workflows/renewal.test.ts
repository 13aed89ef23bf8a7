import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Handle, quietTemporal, workflowLab, type WorkflowLab } from '../kit/workflows.ts';

let sandbox: Sandbox;
let lab: WorkflowLab;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  lab = await workflowLab(sandbox.temporalAddress);
});

afterEach(() => lab.clear());

afterAll(async () => {
  await lab?.close();
  await releaseSandbox(sandbox);
});

const renewals = ({ calls }: FakeMaintenance) => calls.filter((call) => call === 'renewNodeLeases').length;

const renewedAgain = async (fake: FakeMaintenance) => {
  const before = renewals(fake);
  await eventually('two more renewals', () => expect(renewals(fake)).toBeGreaterThan(before + 1));
};

function renewing(given: ConstructorParameters<typeof FakeMaintenance>[0]): FakeMaintenance {
  const fake = new FakeMaintenance(given);
  fake.renewAfterSeconds = 0.1;
  return fake;
}

describe('The maintenance Leases of the nodes', () => {
  test('are taken before the first touch, and not in Idle', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.begun(fake);
    await handle.executeUpdate('advance', { args: [{ to: 'Cordon' }] });
    await fake.underWay('keepCordoned Cordon');
    expect(fake.calls.slice(-3)).toEqual(['beginStage Cordon', 'renewNodeLeases', 'keepCordoned Cordon']);
  });

  test('are renewed by a timer beside the drain, which goes on undisturbed, and while it is paused', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.begun(fake);
    await fake.underWay('drain 0');
    await renewedAgain(fake);
    expect(fake.calls).not.toContain('drain 0 cancelled');
    await handle.executeUpdate('pause', { args: [] });
    await fake.underWay('keepCordoned Drain');
    await renewedAgain(fake);
  });

  test('are renewed again after a renewal that failed', async () => {
    const fake = renewing({ stage: 'Cordon' });
    await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    fake.failing('renewNodeLeases', new Error('the apiserver is down'), new Error('the apiserver is down'));
    await renewedAgain(fake);
    await renewedAgain(fake);
    await fake.underWay('keepCordoned Cordon');
  });

  /** Orders the end, and looks at the renewals while Evacuations are withdrawn and while nodes are given back. */
  async function ended(handle: Handle, fake: FakeMaintenance, order: () => Promise<unknown>): Promise<void> {
    const withdrawn = fake.shut('removeEvacuations');
    const givenBack = fake.shut('giveBackNodes');
    await order();
    await eventually('the withdrawal', () => expect(fake.calls).toContain('removeEvacuations'));
    await renewedAgain(fake);
    withdrawn();
    await eventually('the giving back', () => expect(fake.calls).toContain('giveBackNodes'));
    const before = renewals(fake);
    await throughout('nothing is renewed', 500, () => expect(renewals(fake)).toBe(before));
    givenBack();
    await handle.result();
  }

  test('are renewed until the nodes are given back, and not any more then', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.begun(fake);
    await fake.underWay('drain 0');
    await ended(handle, fake, () => handle.signal('cancel'));
  });

  test('are so too when the run is cancelled from Temporal', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.begun(fake);
    await fake.underWay('drain 0');
    await ended(handle, fake, () => handle.cancel());
  });

  test('are not given back before a renewal under way has ended', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.begun(fake);
    await fake.underWay('drain 0');
    const renewed = fake.shut('renewNodeLeases');
    const before = renewals(fake);
    await eventually('a renewal under way', () => expect(renewals(fake)).toBeGreaterThan(before));
    await handle.signal('cancel');
    await eventually('the withdrawal', () => expect(fake.calls).toContain('removeEvacuations'));
    await throughout('nothing is given back', 500, () => expect(fake.calls).not.toContain('giveBackNodes'));
    renewed();
    await handle.result();
    expect(fake.calls.slice(-2)).toEqual(['giveBackNodes', 'finish']);
  });
});
