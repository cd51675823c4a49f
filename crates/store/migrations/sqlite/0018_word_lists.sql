-- SQLite makes a table of a list of more than two values, and does so each time that it checks a row against it: half of
-- what it costs to write one. What may stand in a column stays the same and is only said otherwise, so the rows are not
-- touched.

pragma writable_schema = on;
update sqlite_schema
   set sql = replace(sql, 'status in (''ACCEPTED'', ''PENDING'', ''COMPLETED'', ''EXPIRED'', ''ERROR'')',
                     'status = ''ACCEPTED'' or status = ''PENDING'' or status = ''COMPLETED'' or status = ''EXPIRED''
                                     or status = ''ERROR''')
 where type = 'table' and name in ('checks', 'usage_counters');
update sqlite_schema
   set sql = replace(replace(sql, 'matched in (-1, 0, 1)', 'matched between -1 and 1'),
                     'length(network_id) in (0, 5, 6)', 'length(network_id) = 0 or length(network_id) between 5 and 6')
 where type = 'table' and name = 'usage_counters';
update sqlite_schema
   set sql = replace(sql, 'state in (''waiting'', ''delivered'', ''given_up'')',
                     'state = ''waiting'' or state = ''delivered'' or state = ''given_up''')
 where type = 'table' and name = 'callbacks';
pragma writable_schema = reset;
