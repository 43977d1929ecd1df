import io.trino.jdbc.TrinoStatement;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Runs queries with the JDBC driver: java -cp trino-jdbc.jar Query.java URL FILE THREADS [URL...]
 * FILE has one query a line, a word (run or cancel) before it. Prints a JSON line a query:
 * {"index", "queryId", "rows", "digest" (of the sorted rows), "error"}. With several URLs all queries run at each in turn,
 * and indexes go on.
 */
public class Query {
    public static void main(String[] args) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(args[1]), StandardCharsets.UTF_8);
        int threads = Integer.parseInt(args[2]);
        runAll(args[0], lines, threads, 0);
        for (int next = 3; next < args.length; next++) {
            runAll(args[next], lines, threads, (next - 2) * lines.size());
        }
    }

    private static void runAll(String url, List<String> lines, int threads, int firstIndex) throws InterruptedException {
        List<Thread> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int first = t;
            Thread thread = new Thread(() -> {
                try (Connection connection = connect(url)) {
                    for (int i = first; i < lines.size(); i += threads) {
                        String[] parts = lines.get(i).split(" ", 2);
                        print(run(connection, firstIndex + i, parts[1], parts[0].equals("cancel")));
                    }
                }
                catch (SQLException e) {
                    throw new RuntimeException(e);
                }
            });
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
    }

    private static Connection connect(String url) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "jdbc");
        properties.setProperty("source", "suite-jdbc");
        properties.setProperty("timezone", "UTC");
        return DriverManager.getConnection("jdbc:trino://" + url.replaceFirst("^http://", ""), properties);
    }

    private static String run(Connection connection, int index, String sql, boolean cancel) {
        AtomicReference<String> queryId = new AtomicReference<>();
        List<String> rows = new ArrayList<>();
        String error = null;
        AtomicBoolean ended = new AtomicBoolean();
        Thread runner = Thread.currentThread();
        try (Statement statement = connection.createStatement()) {
            AtomicReference<Thread> canceller = new AtomicReference<>();
            statement.unwrap(TrinoStatement.class).setProgressMonitor(stats -> {
                queryId.set(stats.getQueryId());
                if (cancel && stats.getState().equals("RUNNING") && canceller.get() == null) {
                    canceller.set(Thread.startVirtualThread(() -> cancel(statement, runner, ended)));
                }
            });
            if (statement.execute(sql)) {
                ResultSet result = statement.getResultSet();
                int columns = result.getMetaData().getColumnCount();
                while (result.next()) {
                    StringBuilder row = new StringBuilder();
                    for (int c = 1; c <= columns; c++) {
                        row.append(c > 1 ? "\t" : "").append(result.getString(c));
                    }
                    rows.add(row.toString());
                }
            }
        }
        catch (SQLException e) {
            error = String.valueOf(e.getMessage());
        }
        catch (RuntimeException e) {
            error = e.toString();
        }
        finally {
            ended.set(true);
            Thread.interrupted();
        }
        return "{\"index\":" + index + ",\"queryId\":" + json(queryId.get()) + ",\"rows\":" + rows.size()
                + ",\"digest\":" + json(digest(rows)) + ",\"error\":" + json(error) + "}";
    }

    /**
     * Cancels until the query has ended: the driver forgets a cancel that comes while it hands the result over, and one
     * that comes between two pages leaves the reader waiting, which an interrupt ends.
     */
    private static void cancel(Statement statement, Thread runner, AtomicBoolean ended) {
        try {
            for (int i = 1; !ended.get(); i++) {
                statement.cancel();
                Thread.sleep(100);
                if (i % 20 == 0 && !ended.get()) {
                    runner.interrupt();
                }
            }
        }
        catch (SQLException | InterruptedException e) {
            // Closed meanwhile: it has ended.
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String digest(List<String> rows) {
        Collections.sort(rows);
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            for (String row : rows) {
                sha.update((row + "\n").getBytes(StandardCharsets.UTF_8));
            }
            return HexFormat.of().formatHex(sha.digest());
        }
        catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String json(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            }
            else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            }
            else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
