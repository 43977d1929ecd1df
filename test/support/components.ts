/**
 * Says whether a real component that a suite needs is there. A missing one skips the suite, by name; with CI=true it is
 * an error, so that nothing is left out unseen.
 * @param name what is needed, for the message
 * @param present whether it was found
 * @param fix what to do when it is not
 */
export function requireComponent(name: string, present: boolean, fix: string): boolean {
  if (present) return true;
  if (process.env.CI === 'true') throw new Error(`${name} is missing: ${fix}`);
  console.warn(`skipped: ${name} is missing: ${fix}`);
  return false;
}
