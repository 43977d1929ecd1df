/**
 * Runs work that ends when its signal aborts, within a time. `AbortSignal.timeout` cannot be called off: of thousands of
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
