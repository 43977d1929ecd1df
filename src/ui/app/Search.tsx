import { Button, Combobox, Kbd, Modal, Text, TextInput, useCombobox } from '@mantine/core';
import { useDebouncedValue, useDisclosure, useHotkeys } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useNavigate } from 'react-router';
import type { Page } from './pages.ts';
import classes from './Search.module.css';
import { type Hit, useHits } from './searchHits.ts';

/** Finds queries by id, clusters, rules, groups and pages. Ctrl-K opens it everywhere. */
export function Search({ pages }: { readonly pages: readonly Page[] }) {
  const [opened, { open, close }] = useDisclosure(false);
  useHotkeys([['mod+K', open]], []);
  return (
    <>
      <Button
        variant="default"
        size="xs"
        classNames={{ section: classes.icon ?? '' }}
        leftSection={<IconSearch size={16} aria-hidden />}
        aria-keyshortcuts="Control+K"
        onClick={open}
      >
        <span className={classes.label}>Search</span>
        <Kbd size="xs" className={classes.hint ?? ''} aria-hidden>
          Ctrl K
        </Kbd>
      </Button>
      <Modal opened={opened} onClose={close} title="Search" size="lg" zIndex={ABOVE_DIALOGS}>
        <SearchField pages={pages} onClose={close} />
      </Modal>
    </>
  );
}

/** Other dialogs have 200. The question about unsaved edits comes after the search is closed. */
const ABOVE_DIALOGS = 250;
/** Delay before a typed id is looked up, in milliseconds. */
const TYPING_MS = 200;

function SearchField({ pages, onClose }: { readonly pages: readonly Page[]; readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const [settled] = useDebouncedValue(text, TYPING_MS);
  const combobox = useCombobox({ opened: true, onDropdownClose: onClose });
  const navigate = useNavigate();
  const hits = useHits(pages, text.trim(), settled.trim());
  const kinds = [...new Set(hits.map(({ kind }) => kind))];
  const choose = (address: string) => {
    onClose();
    void navigate(address);
  };
  return (
    <Combobox store={combobox} onOptionSubmit={choose}>
      <Combobox.EventsTarget>
        <TextInput
          data-autofocus
          aria-label="Search"
          placeholder="Query id, backend, rule, group or page"
          leftSection={<IconSearch size={16} aria-hidden />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            combobox.selectFirstOption();
          }}
        />
      </Combobox.EventsTarget>
      <div className={classes.results}>
        <Combobox.Options aria-label="Results">
          {kinds.map((kind) => (
            <Combobox.Group key={kind} label={kind}>
              {hits
                .filter((hit) => hit.kind === kind)
                .map((hit) => (
                  <HitOption key={hit.address} hit={hit} />
                ))}
            </Combobox.Group>
          ))}
          {hits.length === 0 && <Combobox.Empty>Nothing of this name.</Combobox.Empty>}
        </Combobox.Options>
      </div>
    </Combobox>
  );
}

function HitOption({ hit: { address, name, about } }: { readonly hit: Hit }) {
  return (
    <Combobox.Option value={address}>
      <Text size="sm" className={classes.name}>
        {name}
      </Text>
      {about !== '' && (
        <Text size="xs" c="dimmed" className={classes.name}>
          {about}
        </Text>
      )}
    </Combobox.Option>
  );
}
