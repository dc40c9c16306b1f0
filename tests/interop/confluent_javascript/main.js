'use strict';

require('./records');
require('./groups');
require('./consumer_protocol');
require('./transactions');
require('./admin');
require('../javascript/harness').runAll();
