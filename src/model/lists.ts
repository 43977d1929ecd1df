/** True if two lists have the same elements in the same order. @param isSame compares elements that are different objects */
export function areAlike<T>(a: readonly T[], b: readonly T[], isSame: (a: T, b: T) => boolean = () => false): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index] || isSame(each, b[index] as T));
}
