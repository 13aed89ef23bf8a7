import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { nodeLeases } from '@node-maintenance/node-lease';

const [node = '', program = './reboot-and-wait.sh', ...args] = process.argv.slice(2);
const run = promisify(execFile);

/** Reboots a node, or runs the given command, while no other client works on the node. */
const leases = nodeLeases({ holder: `reboot-daemon/${node}` });
const onWaiting = ({ holder }: { holder: string }) => console.log(`${node} is held by ${holder}: waiting`);
await leases.hold(node, (signal) => run(program, args, { signal }), { onWaiting });
await leases.close();
console.log(`${node} is done`);
