import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { type Handle, quietTemporal, workflowLab, type WorkflowLab } from '../../kit/workflows.ts';

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

const eventuallyRenewed = async (fake: FakeMaintenance) => {
  const before = renewals(fake);
  await eventually('two more renewals', () => expect(renewals(fake)).toBeGreaterThan(before + 1));
};

function renewing(given: ConstructorParameters<typeof FakeMaintenance>[0]): FakeMaintenance {
  const fake = new FakeMaintenance(given);
  fake.renewAfterSeconds = 0.1;
  return fake;
}

describe('The maintenance Leases of the nodes', () => {
  test('are acquired before a node is changed, and not in Idle', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.startMaintenance(fake);
    await handle.executeUpdate('advance', { args: [{ to: 'Cordon' }] });
    await fake.inProgress('keepCordoned Cordon');
    expect(fake.calls.slice(-3)).toEqual(['startStage Cordon', 'renewNodeLeases', 'keepCordoned Cordon']);
  });

  test('are renewed by a timer during the drain, without interrupting it, and during a pause', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    await eventuallyRenewed(fake);
    expect(fake.calls).not.toContain('drain 0 cancelled');
    await handle.executeUpdate('pause', { args: [] });
    await fake.inProgress('keepCordoned Drain');
    await eventuallyRenewed(fake);
  });

  test('are renewed again after a failed renewal', async () => {
    const fake = renewing({ stage: 'Cordon' });
    await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    fake.failing('renewNodeLeases', new Error('the apiserver is down'), new Error('the apiserver is down'));
    await eventuallyRenewed(fake);
    await eventuallyRenewed(fake);
    await fake.inProgress('keepCordoned Cordon');
  });

  /** Ends the maintenance, and checks the renewals while Evacuations are removed and while nodes are uncordoned. */
  async function end(handle: Handle, fake: FakeMaintenance, request: () => Promise<unknown>): Promise<void> {
    const unblockRemoval = fake.block('removeEvacuations');
    const unblockUncordon = fake.block('uncordonNodes');
    await request();
    await eventually('the removal', () => expect(fake.calls).toContain('removeEvacuations'));
    await eventuallyRenewed(fake);
    unblockRemoval();
    await eventually('the uncordon', () => expect(fake.calls).toContain('uncordonNodes'));
    const before = renewals(fake);
    await throughout('nothing is renewed', 500, () => expect(renewals(fake)).toBe(before));
    unblockUncordon();
    await handle.result();
  }

  test('are renewed until the nodes are uncordoned, and not afterwards', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    await end(handle, fake, () => handle.signal('cancel'));
  });

  test('are renewed likewise when the workflow is cancelled from Temporal', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    await end(handle, fake, () => handle.cancel());
  });

  test('are not released before a renewal in progress has ended', async () => {
    const fake = renewing({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    const unblockRenewal = fake.block('renewNodeLeases');
    const before = renewals(fake);
    await eventually('a renewal in progress', () => expect(renewals(fake)).toBeGreaterThan(before));
    await handle.signal('cancel');
    await eventually('the removal', () => expect(fake.calls).toContain('removeEvacuations'));
    await throughout('no node is uncordoned', 500, () => expect(fake.calls).not.toContain('uncordonNodes'));
    unblockRenewal();
    await handle.result();
    expect(fake.calls.slice(-2)).toEqual(['uncordonNodes', 'finish']);
  });
});
