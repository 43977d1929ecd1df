/** Converts a value of an enum of a spec to the name in policies, configuration and metrics: `LeastLoaded` to `leastLoaded`. */
export function uncapitalized<T extends string>(value: T): Uncapitalize<T> {
  return `${value.charAt(0).toLowerCase()}${value.slice(1)}` as Uncapitalize<T>;
}

/** Converts such a name to the value in a spec: `leastLoaded` to `LeastLoaded`. */
export function capitalized<T extends string>(name: T): Capitalize<T> {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}` as Capitalize<T>;
}
