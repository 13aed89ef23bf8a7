export { nodeMaintenance } from './nodeMaintenance.ts';
