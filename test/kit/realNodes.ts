import { realNodeProblem } from '../../sandbox/realNodes/requirements.ts';
import { Requirement, testsWith } from './requirements.ts';

/** Names what this machine lacks for containers and real nodes; undefined if it has everything. `npm run debian-packages` installs the packages. */
export const missingForContainers = realNodeProblem();

/** A test with containers or real nodes. */
export const withContainers = testsWith(Requirement.Containers, missingForContainers);
