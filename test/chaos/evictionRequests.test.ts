import { testShortRuns } from './shortRuns.ts';

testShortRuns({ evictionApi: 'lifecycle', seeds: [7, 8, 9] }, { evictionApi: 'auto', seeds: [10, 11, 12] });
