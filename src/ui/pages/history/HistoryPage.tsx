import { PageFrame } from '../../components/PageFrame.tsx';
export default function HistoryPage() {
  return <PageFrame title="Query History">x</PageFrame>;
}
