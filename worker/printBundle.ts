import { bundleWorkflows } from './bundle.ts';

const { code } = await bundleWorkflows({ traces: process.argv.includes('--traces') });
process.stdout.write(code);
