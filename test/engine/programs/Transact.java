import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs transactions with the JDBC driver: java -cp trino-jdbc.jar Transact.java URL COUNT THREADS
 * Each has two queries; every other one is rolled back. Prints a JSON line a transaction: {"index", "rows", "error"}.
 */
public class Transact {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        int threads = Integer.parseInt(args[2]);
        List<Thread> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int first = t;
            Thread thread = new Thread(() -> {
                for (int i = first; i < count; i += threads) {
                    print(transact(args[0], i));
                }
            });
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
    }

    private static String transact(String url, int index) {
        int rows = 0;
        String error = null;
        try (Connection connection = DriverManager.getConnection(
                "jdbc:trino://" + url.replaceFirst("^http://", "") + "?user=jdbc&source=suite-transactions")) {
            connection.setAutoCommit(false);
            rows += rowsOf(connection, "SELECT name FROM tpch.tiny.nation");
            rows += rowsOf(connection, "SELECT name FROM tpch.tiny.region");
            if (index % 2 == 0) {
                connection.commit();
            }
            else {
                connection.rollback();
            }
        }
        catch (SQLException | RuntimeException e) {
            error = e.toString();
        }
        return "{\"index\":" + index + ",\"rows\":" + rows + ",\"error\":"
                + (error == null ? "null" : "\"" + error.replaceAll("[^\\w .,:;()-]", "?") + "\"") + "}";
    }

    private static int rowsOf(Connection connection, String sql) throws SQLException {
        int rows = 0;
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(sql)) {
            while (result.next()) {
                rows++;
            }
        }
        return rows;
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
