export { clusterClaim } from './clusterClaim.ts';
export { maintenanceWindow } from './windows/maintenanceWindow.ts';
export { nodeMaintenance } from './maintenance/nodeMaintenance.ts';
export { notify } from './notifications/notify.ts';
