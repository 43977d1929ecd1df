/**
 * Runs work with a signal that aborts after a time limit. `AbortSignal.timeout` cannot be cancelled: the timers of
 * thousands of finished calls would remain.
 * @param late reason of the abort
 * @throws the error of the work
 */
export async function withTimeLimit<T>(
  milliseconds: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(late()), milliseconds);
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** The promise's value, or `otherwise` after a time limit; the promise itself continues. */
export function within<T, Late>(promise: Promise<T>, milliseconds: number, otherwise: Late): Promise<T | Late> {
  const { promise: result, resolve, reject } = Promise.withResolvers<T | Late>();
  const timer = setTimeout(() => resolve(otherwise), milliseconds);
  promise.then(resolve, reject).finally(() => clearTimeout(timer));
  return result;
}

/** The promise's value. @throws `late` after a time limit */
export async function inTime<T>(
  promise: Promise<T>,
  milliseconds: number,
  late = () => new Error(`no answer within ${milliseconds} ms`),
): Promise<T> {
  const isLate = Symbol('late');
  const value = await within(promise, milliseconds, isLate);
  if (value === isLate) throw late();
  return value as T;
}

/** True if the promise was fulfilled within a time limit. Rejects as the promise does. */
export function settlesWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const settled = promise.then(() => true);
  return within(settled, milliseconds, false);
}
