import { keepWorkflows } from './bundle.ts';
import { createLogger, toLog } from '../process/log.ts';

/** Bundles the workflows for the next starts, unless that was done. */
for (const traces of [false, true]) await keepWorkflows({ traces }, toLog(createLogger('info')));
