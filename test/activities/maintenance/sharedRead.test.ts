import { describe, expect, test } from '@jest/globals';
import { SharedRead } from '../../../activities/maintenance/sharedRead.ts';

/** A read whose results are numbered, and end when the test says so. */
function numbered() {
  const reads: PromiseWithResolvers<number>[] = [];
  const shared = new SharedRead(() => {
    const read = Promise.withResolvers<number>();
    reads.push(read);
    return read.promise;
  });
  return { shared, reads, end: (index: number) => reads[index]?.resolve(index) };
}

describe('a shared read', () => {
  test('gives each caller a result of a read that began after its call', async () => {
    const { shared, reads, end } = numbered();
    const first = shared.get();
    const others = [shared.get(), shared.get(), shared.get()];
    expect(reads).toHaveLength(1);
    end(0);
    expect(await first).toBe(0);
    expect(reads).toHaveLength(2);
    const late = shared.get();
    end(1);
    expect(await Promise.all(others)).toEqual([1, 1, 1]);
    end(2);
    expect(await late).toBe(2);
    expect(reads).toHaveLength(3);
    void shared.get();
    expect(reads).toHaveLength(4);
  });

  test('fails for those who share it, and is repeated for the next', async () => {
    const { shared, reads, end } = numbered();
    const first = shared.get();
    const second = shared.get();
    reads[0]?.reject(new Error('the apiserver is down'));
    await expect(first).rejects.toThrow('the apiserver is down');
    end(1);
    expect(await second).toBe(1);
  });
});
