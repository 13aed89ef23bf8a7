import { bundleWorkflows } from './bundle.ts';

const { code } = await bundleWorkflows();
process.stdout.write(code);
