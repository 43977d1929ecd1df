import type { ProductNames } from '../../model/names.ts';
import { DefaultGroupRouter } from './defaultGroupRouter.ts';
import { HeaderRouter } from './headerRouter.ts';
import type { Router } from './router.ts';
import { RouterChain } from './routerChain.ts';
import { RulesRouter } from './rulesRouter.ts';

export interface RouterOptions {
  readonly names: ProductNames;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
  /** Router that calls the external rules service; null if disabled. */
  readonly external: Router | null;
}

/** Creates the routers in order (docs/routing.md#which-cluster-takes-a-query). */
export function routers({ names, defaultGroup, external }: RouterOptions): RouterChain {
  return new RouterChain(
    [
      new RulesRouter({ defaultGroup, refusesOnly: external !== null }),
      ...(external === null ? [] : [external]),
      new HeaderRouter(names.headerKey('Routing-Group')),
    ],
    new DefaultGroupRouter(defaultGroup),
  );
}
