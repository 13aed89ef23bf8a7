import { testShortRuns } from './shortRuns.ts';

testShortRuns({ evictionApi: 'evacuation', seeds: [1, 2, 3, 4, 5, 6, 20019] });
