import { Fragment, type ReactNode } from 'react';

/** Names in a line, separated by commas. @param of renders a name */
export function Names({ names, of }: { readonly names: readonly string[]; readonly of: (name: string) => ReactNode }) {
  return names.map((name, index) => (
    <Fragment key={name}>
      {index > 0 && ', '}
      {of(name)}
    </Fragment>
  ));
}
