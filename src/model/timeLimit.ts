/**
 * Runs work that ends when its signal aborts, within a time. `AbortSignal.timeout` cannot be cancelled: of thousands of
 * calls each one's would stay until its time is over, answered or not.
 * @param late what the signal aborts with
 * @throws what the work throws
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

/** The promise's value, or `otherwise` once the time is over; the promise itself goes on. Rejects as the promise does. */
export function within<T, Late>(promise: Promise<T>, milliseconds: number, otherwise: Late): Promise<T | Late> {
  const { promise: result, resolve, reject } = Promise.withResolvers<T | Late>();
  const timer = setTimeout(() => resolve(otherwise), milliseconds);
  promise.then(resolve, reject).finally(() => clearTimeout(timer));
  return result;
}
