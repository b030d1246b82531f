-- Counts the bids of each bidder's sessions, which end after 10 seconds without one. Sessions are Spark's
-- `session_window(time, gap)`.
SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
FROM bid
GROUP BY bidder, session_window(dateTime, '10 seconds')
