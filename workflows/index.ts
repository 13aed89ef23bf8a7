export { maintenanceWindow } from './maintenanceWindow.ts';
export { nodeMaintenance } from './nodeMaintenance.ts';
export { notify } from './notify.ts';
