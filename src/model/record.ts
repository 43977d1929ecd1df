/** True if a value is an object with named members, such as a JSON object or a YAML mapping. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** True if two lists have the same elements in the same order. @param isSame compares elements that are different objects */
export function areAlike<T>(a: readonly T[], b: readonly T[], isSame?: (a: T, b: T) => boolean): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index] || isSame?.(each, b[index] as T) === true);
}

/** Returns the object of a JSON text; null for anything else. */
export function recordIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}
