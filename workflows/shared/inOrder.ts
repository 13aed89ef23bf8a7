import { patched } from '@temporalio/workflow';

/**
 * Returns a function that performs requests one after the other, in the order in which they arrived: the activity of an earlier one, which is tried again
 * after a failure, must not undo a later one. A failure concerns only its own request.
 */
export function inOrder(): <T>(request: () => Promise<T>) => Promise<T> {
  let previous: Promise<unknown> = Promise.resolve();
  return (request) => {
    // Runs of earlier versions have performed them side by side.
    if (!patched('requests-in-order')) return request();
    const performed = previous.then(request);
    previous = performed.catch(() => undefined);
    return performed;
  };
}
