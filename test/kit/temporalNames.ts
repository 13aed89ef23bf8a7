import { type ClusterScope, temporalNames } from '../../api/names.ts';

const names = temporalNames(undefined);

/** A cluster without `--cluster`. */
export const testScope: ClusterScope = {
  name: '5a1c7f02',
  uid: '5a1c7f02-0000-4000-8000-000000000001',
  names,
};

/** Its names in Temporal. */
export const {
  taskQueue: TASK_QUEUE,
  maintenanceId: workflowIdOf,
  windowId: windowWorkflowIdOf,
  notificationId: notificationWorkflowIdOf,
} = names;
